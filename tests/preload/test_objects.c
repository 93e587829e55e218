/* SPDX-License-Identifier: MIT */
/* Symbols of loaded objects as the recorder finds them, against what the loader's own dlsym says. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libinterpose/objects.h"

static const char *const names[] = {
	"malloc", "printf", "execve", "pthread_create", "dlsym", "environ", "quick_exit", "stdout", "realpath",
};

static void test_symbols_of_the_c_library(void **state)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_ptr_equal(ip_symbol_of("libc.so", names[i]), dlsym(libc, names[i]));
	assert_null(ip_symbol_of("libc.so", "no_such_function"));
	assert_null(ip_symbol_of("libc.so", ""));
	assert_null(ip_symbol_of("no_such_library", "malloc"));
	dlclose(libc);
}

static void test_every_symbol_of_a_library(void **state)
{
	void *library = dlopen("libcmocka.so.0", RTLD_LAZY | RTLD_NOLOAD);
	unsigned nr = 0;

	(void)state;
	for (char name[] = "_expect_a"; name[8] <= 'z'; name[8]++)
		assert_ptr_equal(ip_symbol_of("libcmocka.so", name), dlsym(library, name));
	for (const char *const *n = (const char *const[]){ "_assert_true", "_fail", "_skip", "mock_assert", "_mock",
							   "_cmocka_run_group_tests", "cmocka_set_message_output", NULL };
	     *n; n++, nr++)
		assert_ptr_equal(ip_symbol_of("libcmocka.so", *n), dlsym(library, *n));
	assert_int_equal(nr, 7);
	dlclose(library);
}

static void test_objects_of_addresses(void **state)
{
	char name[64], cut[5];

	(void)state;
	assert_true(ip_object_name((void *)(uintptr_t)dlopen, name, sizeof(name)));
	assert_true(ip_object_name(ip_symbol_of("libc.so", "malloc"), name, sizeof(name)));
	assert_string_equal(name, "libc.so.6");
	assert_true(ip_object_name(ip_symbol_of("libc.so", "malloc"), cut, sizeof(cut)));
	assert_string_equal(cut, "libc");
	assert_false(ip_object_name(name, name, sizeof(name)));
	assert_true(ip_same_object(ip_symbol_of("libc.so", "malloc"), ip_symbol_of("libc.so", "environ")));
	assert_false(ip_same_object(ip_symbol_of("libc.so", "malloc"), (void *)(uintptr_t)test_objects_of_addresses));
	assert_true(ip_object_loaded("libcmocka.so"));
	assert_false(ip_object_loaded("libcuda.so"));
}

static void test_what_a_library_needs(void **state)
{
	void *in_cmocka = ip_symbol_of("libcmocka.so", "_fail");

	(void)state;
	assert_ptr_equal(ip_symbol_needed(in_cmocka, "libc.so", "malloc"), ip_symbol_of("libc.so", "malloc"));
	assert_null(ip_symbol_needed(in_cmocka, "libcudart", "cudaMalloc"));
}

static void test_the_next_definition(void **state)
{
	(void)state;
	assert_ptr_equal(ip_symbol_next("execve"), ip_symbol_of("libc.so", "execve"));
	assert_null(ip_symbol_next("no_such_function"));
}

static void test_definitions_in_any_object(void **state)
{
	(void)state;
	assert_ptr_equal(ip_symbol_elsewhere("execve"), ip_symbol_of("libc.so", "execve"));
	assert_null(ip_symbol_elsewhere("no_such_function"));
	assert_null(ip_symbol_ours("execve"));
}

static void test_what_was_loaded_with_a_library(void **state)
{
	void *library = dlopen("libBrokenLocale.so.1", RTLD_LAZY);
	void *in_it = ip_symbol_of("libBrokenLocale.so", "__ctype_get_mb_cur_max");

	(void)state;
	assert_null(ip_symbol_beside(ip_symbol_of("libcmocka.so", "_fail"), "execve"));
	if (!library || !in_it)
		skip();
	assert_ptr_equal(ip_symbol_beside(in_it, "execve"), ip_symbol_of("libc.so", "execve"));
	assert_null(ip_symbol_beside(in_it, "_fail"));
	dlclose(library);
}

static void test_unloaded_objects_are_counted(void **state)
{
	uint64_t before = ip_objects_unloaded();
	void *library = dlopen("libBrokenLocale.so.1", RTLD_LAZY);

	(void)state;
	if (!library)
		skip();
	assert_int_equal(ip_objects_unloaded(), before);
	assert_true(ip_object_loaded("libBrokenLocale.so"));
	dlclose(library);
	assert_int_equal(ip_objects_unloaded(), before + 1);
	assert_false(ip_object_loaded("libBrokenLocale.so"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_symbols_of_the_c_library),
		cmocka_unit_test(test_every_symbol_of_a_library),
		cmocka_unit_test(test_objects_of_addresses),
		cmocka_unit_test(test_what_a_library_needs),
		cmocka_unit_test(test_the_next_definition),
		cmocka_unit_test(test_definitions_in_any_object),
		cmocka_unit_test(test_what_was_loaded_with_a_library),
		cmocka_unit_test(test_unloaded_objects_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
