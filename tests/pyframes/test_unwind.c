/* SPDX-License-Identifier: MIT */
/* Native walks by rules against those of the C library: all kinds of frames, threads, replaced libraries. */
#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/unwind_table.h"

#define FRAMES 256
#define NR_THREADS 4

static __thread struct unwind_thread thread;
static __thread uint64_t by_rules[FRAMES];
static __thread void *by_libc[FRAMES + 8];
static __thread uint32_t nr_by_rules;
static __thread bool walked;
static char folder[PATH_MAX];

static int begin(void **state)
{
	pthread_attr_t attributes;
	void *start;
	size_t bytes;

	(void)state;
	memset(&thread, 0, sizeof(thread));
	if (pthread_getattr_np(pthread_self(), &attributes) ||
	    pthread_attr_getstack(&attributes, &start, &bytes))
		return -1;
	unwind_table_learn(&thread, (uintptr_t)start, (uintptr_t)start + bytes);
	return pthread_attr_destroy(&attributes);
}

/* The caller's stack by rules and by the C library. */
__attribute__((noinline)) static void walk(void)
{
	const uint64_t *frame = __builtin_frame_address(0);
	struct unwind_registers at = { frame[1], (uintptr_t)(frame + 2), frame[0] };
	struct unwind_trace trace = { .ip = by_rules, .max = FRAMES };

	walked = unwind_table_walk(&thread, at, &trace);
	nr_by_rules = trace.nr;
	backtrace(by_libc, FRAMES + 8);
}

/* The C library also sees walk() itself, and maybe a wrapper of backtrace() by a sanitizer. */
static bool agree(void)
{
	unsigned first = 0;

	walk();
	while (first < 8 && (uintptr_t)by_libc[first] != by_rules[0])
		first++;
	return walked && nr_by_rules > 3 && first < 8 &&
	       !memcmp(by_libc + first, by_rules, nr_by_rules * sizeof(*by_rules));
}

static bool plain(unsigned depth, unsigned shape);

/* rbp holds the frame: its size is not known beforehand. */
__attribute__((noinline)) static bool variable(unsigned depth, unsigned shape)
{
	volatile char *room = __builtin_alloca(16 + (shape & 7) * 24);
	bool result;

	room[0] = 1;
	result = plain(depth - 1, shape / 3);
	return result && room[0];
}

/* The stack is aligned: the frame address is kept in memory. */
__attribute__((noinline)) static bool aligned(unsigned depth, unsigned shape)
{
	volatile char room[64] __attribute__((aligned(128)));
	bool result;

	room[0] = 1;
	result = plain(depth - 1, shape / 3);
	return result && room[0];
}

__attribute__((noinline)) static bool plain(unsigned depth, unsigned shape)
{
	volatile bool result;

	if (!depth)
		return agree();
	result = shape % 3 == 0 ? plain(depth - 1, shape / 3 * 7 + 1) :
		 shape % 3 == 1 ? variable(depth, shape) : aligned(depth, shape);
	return result;
}

static void test_every_kind_of_frame(void **state)
{
	(void)state;
	for (unsigned shape = 0; shape < 3000; shape++)
		assert_true(plain(shape % 60, shape));
}

static int compare_by_walking(const void *a, const void *b)
{
	(void)a;
	(void)b;
	return agree() ? 0 : 1;
}

static void test_through_other_libraries(void **state)
{
	int numbers[2] = { 1, 2 };

	(void)state;
	qsort(numbers, 2, sizeof(*numbers), compare_by_walking);
	assert_int_equal(numbers[0], 1);
	assert_true(walked);
}

static void test_a_full_trace_is_cut(void **state)
{
	const uint64_t *frame = __builtin_frame_address(0);
	struct unwind_registers at = { frame[1], (uintptr_t)(frame + 2), frame[0] };
	struct unwind_trace trace = { .ip = by_rules, .max = 2 };

	(void)state;
	assert_true(unwind_table_walk(&thread, at, &trace));
	assert_int_equal(trace.nr, 2);
	assert_true(trace.cut);
}

static void test_another_stack_is_left_to_libgcc(void **state)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	(void)state;
	unwind_table_learn(&thread, 4096, 8192);
	walk();
	assert_false(walked);
	memset(&thread, 0, sizeof(thread));
	unwind_table_learn(&thread, here - 8192, here + 64); /* the thread began further out */
	walk();
	assert_false(walked);
}

static void *many_walks(void *arg)
{
	bool *ok = arg;

	*ok = begin(NULL) == 0;
	for (unsigned shape = 0; *ok && shape < 300; shape++)
		*ok = plain(shape % 40, shape);
	return NULL;
}

static void test_threads_fill_the_table_together(void **state)
{
	pthread_t threads[NR_THREADS];
	bool ok[NR_THREADS];

	(void)state;
	for (int i = 0; i < NR_THREADS; i++)
		assert_false(pthread_create(&threads[i], NULL, many_walks, &ok[i]));
	for (int i = 0; i < NR_THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(ok[i]);
	}
}

static bool plugin_agreed;

static void in_plugin(void)
{
	plugin_agreed = agree();
}

/* Loads a plugin and returns where it was; its frames are forgotten no sooner than the table promises. */
static uintptr_t use_plugin(const char *name)
{
	char path[PATH_MAX + 16];
	int (*plugin_call)(void (*)(void));
	void *library;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	plugin_call = (int (*)(void (*)(void)))dlsym(library, "plugin_call");
	for (int i = 0; i < UNWIND_OBJECT_LIFE; i++)
		plugin_call(in_plugin);
	plugin_call(in_plugin);
	assert_true(plugin_agreed);
	dlclose(library);
	return (uintptr_t)plugin_call;
}

static void test_a_library_in_the_place_of_another(void **state)
{
	uintptr_t first = use_plugin("plugin1.so");

	(void)state;
	for (int i = 0; i < 5; i++) {
		if (use_plugin("plugin2.so") != first)
			skip(); /* the loader has put it elsewhere */
		use_plugin("plugin1.so");
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_kind_of_frame, begin),
		cmocka_unit_test_setup(test_through_other_libraries, begin),
		cmocka_unit_test_setup(test_a_full_trace_is_cut, begin),
		cmocka_unit_test_setup(test_another_stack_is_left_to_libgcc, begin),
		cmocka_unit_test_setup(test_threads_fill_the_table_together, begin),
		cmocka_unit_test_setup(test_a_library_in_the_place_of_another, begin),
	};

	(void)argc;
	snprintf(folder, sizeof(folder), "%s", argv[0]);
	*strrchr(folder, '/') = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
