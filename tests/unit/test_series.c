/* SPDX-License-Identifier: MIT */
/* Maxima over time, in parts that do not end where the series' steps do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/ledger/series.h"

#define PARTS 100

/* A flight recorder's memory is there from one moment on: the part that this moment is in has it, and each that follows. */
static void test_the_part_of_the_first_values_has_them(void **state)
{
	const struct series_values held = { .value = { 7 } };
	struct series_values values[PARTS];

	(void)state;
	for (uint64_t begin_ns = 700000; begin_ns < 800000; begin_ns += 97) {
		struct series s;

		series_init(&s);
		series_enter(&s, NULL, 0, begin_ns, &held);
		series_enter(&s, NULL, 0, 999999, &held);
		series_resample(&s, series_find(&s, NULL, 0), 1000123, values, PARTS);
		for (int i = 0; i < PARTS; i++) {
			double end_ns = (i + 1) * 1000123.0 / PARTS;

			if (end_ns + 2.0 * (double)s.step_ns < (double)begin_ns)
				assert_int_equal(values[i].value[0], 0);
			else if (end_ns > (double)begin_ns)
				assert_int_equal(values[i].value[0], 7);
		}
		series_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_part_of_the_first_values_has_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
