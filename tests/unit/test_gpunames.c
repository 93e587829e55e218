/* SPDX-License-Identifier: MIT */
/* Which simulated GPU a name stands for, and which one it was to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/gpu/gpunames.h"

static void test_every_spelling_is_found(void **state)
{
	static const char *const cases[][2] = {
		{ "h100", "h100" },		{ "H100-80GB", "h100" },
		{ "h100-80", "h100" },		{ "a100", "a100-80" },
		{ "A100 40 GB", "a100-40" },	{ "NVIDIA A100-SXM4-40GB", "a100-40" },
		{ "Tesla T4", "t4" },		{ "GeForce RTX 3090", "rtx3090" },
		{ "4090", "rtx4090" },		{ "v100", "v100-16" },
		{ "v100_32", "v100-32" },	{ "b200-192", "b200" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(gpunames_find(cases[i][0]), cases[i][1]);
}

static void test_what_is_none(void **state)
{
	char longest[4096];

	(void)state;
	memset(longest, 'h', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	assert_null(gpunames_find(""));
	assert_null(gpunames_find("nvidia"));
	assert_null(gpunames_find("gb"));
	assert_null(gpunames_find("h1000"));
	assert_null(gpunames_find(longest));
	assert_null(gpunames_nearest(""));
	assert_null(gpunames_nearest("mi300x"));
	assert_null(gpunames_nearest(longest));
}

static void test_the_nearest(void **state)
{
	(void)state;
	assert_string_equal(gpunames_nearest("h1000"), "h100");
	assert_string_equal(gpunames_nearest("A100-81GB"), "a100-80");
	assert_string_equal(gpunames_nearest("rtx4080"), "rtx4090");
	assert_string_equal(gpunames_nearest("l40"), "l40s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_spelling_is_found),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_the_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
