/* SPDX-License-Identifier: MIT */
/* Parts of equally many events: peaks and kept moments stay, however many events come. */
#include "analyzer/picture/moments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define EVENTS 100000
#define PEAK 61234
#define FAILURE 77777

static struct moment moment_at(uint64_t i)
{
	return (struct moment){ .ordinal = i, .time_ns = 10 * i, .allocated = i == PEAK ? 1000000 : i % 1000 };
}

static void test_few_events_are_shown_one_by_one(void **state)
{
	struct moments m = { 0 };
	struct moments_point *point;
	size_t nr;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		struct moment now = moment_at(i);

		moments_enter(&m, &now);
	}
	point = moments_points(&m, MOMENTS_PARTS, &nr);
	assert_int_equal(nr, 100);
	for (uint64_t i = 0; i < nr; i++) {
		assert_int_equal(point[i].moment.ordinal, i);
		assert_int_equal(point[i].from_ns, 10 * i);
		assert_int_equal(point[i].least, point[i].moment.allocated);
	}
	free(point);
	moments_release(&m);
}

static void test_peaks_and_failures_stay(void **state)
{
	struct moments m = { 0 };
	struct moments_point *point;
	bool has_peak = false, has_failure = false;
	size_t nr;

	(void)state;
	for (uint64_t i = 0; i < EVENTS; i++) {
		struct moment now = moment_at(i);

		moments_enter(&m, &now);
		if (i == FAILURE)
			moments_keep(&m, &now);
	}
	assert_in_range(m.nr_parts, MOMENTS_PARTS, 2 * MOMENTS_PARTS);
	point = moments_points(&m, 64, &nr);
	assert_in_range(nr, 64, 2 * 64 + 1);
	for (size_t i = 0; i < nr; i++) {
		has_peak |= point[i].moment.ordinal == PEAK && point[i].moment.allocated == 1000000;
		has_failure |= point[i].moment.ordinal == FAILURE;
		if (i) {
			assert_true(point[i].moment.ordinal > point[i - 1].moment.ordinal);
			assert_true(point[i].from_ns >= point[i - 1].from_ns);
		}
	}
	assert_true(has_peak);
	assert_true(has_failure);
	assert_int_equal(point[nr - 1].moment.ordinal, EVENTS - 1);

	assert_true(moments_see(&m, PEAK, PEAK + 1));
	assert_true(moments_see(&m, FAILURE, FAILURE + 1));
	assert_true(moments_see(&m, 0, EVENTS));
	assert_true(moments_see(&m, EVENTS - 1, UINT64_MAX)); /* the last part may still change */
	free(point);
	moments_release(&m);
}

static void test_what_no_moment_sees_is_told(void **state)
{
	struct moments m = { 0 };
	uint64_t nr_seen = 0;

	(void)state;
	for (uint64_t i = 0; i < EVENTS; i++) {
		struct moment now = moment_at(i);

		moments_enter(&m, &now);
	}
	for (uint64_t i = 0; i + 100 < EVENTS; i++)
		nr_seen += moments_see(&m, i, i + 1);
	/* Of each part of 16 events, its fullest and its last. */
	assert_in_range(nr_seen, EVENTS / 32, EVENTS / 4);
	moments_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_events_are_shown_one_by_one),
		cmocka_unit_test(test_peaks_and_failures_stay),
		cmocka_unit_test(test_what_no_moment_sees_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
