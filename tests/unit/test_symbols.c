/* SPDX-License-Identifier: MIT */
/* Native symbols: this program looks up its own functions and lines, as if it had been recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/stacks/symbols.h"

static uint32_t marked_line;

/* A function of its own with a known line. */
static __attribute__((noinline)) uintptr_t here(void)
{
	marked_line = __LINE__ + 1;
	return (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
}

static inline __attribute__((always_inline)) uintptr_t inlined_caller(void)
{
	return here();
}

static __attribute__((noinline)) uintptr_t outer_caller(void)
{
	uintptr_t address = inlined_caller();

	__asm__ volatile("" : "+r"(address)); /* no tail call */
	return address;
}

/* The mapping of this program that holds the address, as the recorder would describe it. */
static struct tfmt_module own_module(uintptr_t address)
{
	static char path[4096];
	struct tfmt_module module = { .path = path, .build_id = "" };
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[8192];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end, offset;

		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &start, &end, &offset, path) == 4 &&
		    address >= start && address < end) {
			module.start = start;
			module.end = end;
			module.offset = offset;
			break;
		}
	}
	fclose(maps);
	assert_true(module.end > 0);
	return module;
}

static void the_innermost_inlined_function_is_named(void **state)
{
	uintptr_t address = outer_caller() - 1;
	struct tfmt_module module = own_module(address);
	struct symbols *s = symbols_new();
	struct symbol symbol = symbols_find(s, &module, address);

	(void)state;
	assert_string_equal(symbol.function, "inlined_caller");
	assert_non_null(strstr(symbol.file, "test_symbols.c"));
	assert_true(symbol.line > marked_line && symbol.line < marked_line + 10);
	symbols_free(s);
}

static void answers_are_kept(void **state)
{
	uintptr_t address = outer_caller() - 1;
	struct tfmt_module module = own_module(address);
	struct symbols *s = symbols_new();
	const char *first = symbols_find(s, &module, address).function;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		symbols_find(s, &module, module.start + i);
	assert_ptr_equal(symbols_find(s, &module, address).function, first);
	symbols_free(s);
}

static void another_build_of_the_file_is_not_believed(void **state)
{
	uintptr_t address = outer_caller() - 1;
	struct tfmt_module module = own_module(address);
	struct symbols *s = symbols_new();
	struct symbol symbol;

	(void)state;
	module.build_id = "00112233445566778899aabbccddeeff00112233";
	symbol = symbols_find(s, &module, address);
	assert_null(symbol.function);
	assert_null(symbol.file);
	symbols_free(s);
}

static void missing_files_and_modules_are_no_error(void **state)
{
	struct tfmt_module module = {
	    .start = 0x1000, .end = 0x2000, .path = "/nowhere/lib.so", .build_id = "" };
	struct symbols *s = symbols_new();

	(void)state;
	assert_null(symbols_find(s, &module, 0x1234).function);
	assert_null(symbols_find(s, &module, 0x10).function);
	assert_null(symbols_find(s, NULL, 0x1234).function);
	symbols_free(s);
}

/* A recording may say anything: opening a pipe would wait for ever. */
static void what_is_no_file_is_not_opened(void **state)
{
	char path[] = "/tmp/vramtrace-symbols.XXXXXX", pipe[sizeof(path) + 8];
	struct tfmt_module module = { .start = 0x1000, .end = 0x2000, .path = pipe, .build_id = "" };
	struct symbols *s = symbols_new();

	(void)state;
	assert_non_null(mkdtemp(path));
	snprintf(pipe, sizeof(pipe), "%s/pipe", path);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	alarm(60);
	assert_null(symbols_find(s, &module, 0x1234).function);
	module.path = path;
	assert_null(symbols_find(s, &module, 0x1234).function);
	module.path = "/dev/zero";
	assert_null(symbols_find(s, &module, 0x1234).function);
	alarm(0);
	symbols_free(s);
	unlink(pipe);
	rmdir(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_innermost_inlined_function_is_named),
		cmocka_unit_test(answers_are_kept),
		cmocka_unit_test(another_build_of_the_file_is_not_believed),
		cmocka_unit_test(missing_files_and_modules_are_no_error),
		cmocka_unit_test(what_is_no_file_is_not_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
