/* SPDX-License-Identifier: MIT */
/* Adding up blocks over time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/changes/blockreplay.h"

static void test_peak_is_the_most_together(void **state)
{
	struct blockreplay r = { .to = 100 };

	(void)state;
	blockreplay_add(&r, 0, 10, 512);
	blockreplay_add(&r, 5, 20, 1024);
	blockreplay_add(&r, 10, BLOCKREPLAY_END, 256);
	assert_int_equal(blockreplay_peak(&r), 1536);
	blockreplay_release(&r);
}

/* A block's end makes room for one that begins at the same time. */
static void test_ends_come_first(void **state)
{
	struct blockreplay r = { .to = 100 };

	(void)state;
	blockreplay_add(&r, 50, 60, 1000);
	blockreplay_add(&r, 40, 50, 1000);
	assert_int_equal(blockreplay_peak(&r), 1000);
	blockreplay_release(&r);
}

static void test_only_the_window_counts(void **state)
{
	struct blockreplay r = { .from = 10, .to = 20 };

	(void)state;
	blockreplay_add(&r, 0, 10, 1); /* over before it */
	blockreplay_add(&r, 21, 30, 2);
	blockreplay_add(&r, 0, 30, 4);
	blockreplay_add(&r, 20, 21, 8);
	blockreplay_add(&r, 15, 15, 16); /* never there */
	assert_int_equal(blockreplay_peak(&r), 12);
	blockreplay_release(&r);
}

/* Sizes that a damaged trace may tell end in some figure, and in no overflow of a signed one. */
static void test_sizes_that_no_machine_has(void **state)
{
	struct blockreplay r = { .to = 100 };

	(void)state;
	blockreplay_add(&r, 0, 90, INT64_MAX);
	blockreplay_add(&r, 10, 80, INT64_MAX);
	blockreplay_add(&r, 20, 70, UINT64_C(1) << 63);
	assert_true(blockreplay_peak(&r) >= INT64_MAX);
	blockreplay_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peak_is_the_most_together),
		cmocka_unit_test(test_ends_come_first),
		cmocka_unit_test(test_only_the_window_counts),
		cmocka_unit_test(test_sizes_that_no_machine_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
