/* SPDX-License-Identifier: MIT */
/* The search of max-fit against a program whose need is a formula: the right answer, in few rounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/maxfit/fitsearch.h"

#define GIB 1073741824.0

/* What a program takes at an index: needed, and more that its allocator keeps. */
typedef double need_of(int64_t index);

static double linear(int64_t i)
{
	return 2 * GIB + 0.037 * GIB * (double)(i + 1);
}

static double quadratic(int64_t i)
{
	return GIB + 0.0004 * GIB * (double)(i + 1) * (double)(i + 1);
}

/* Segments: constant over many values, then a jump. */
static double stairs(int64_t i)
{
	return 1.5 * GIB + 4 * GIB * floor((double)i / 50);
}

struct found {
	int64_t fits, fails;
	unsigned rounds;
};

static struct found find(need_of *need, int64_t nr, unsigned room, double capacity, double kept)
{
	struct fitsearch_point point[1024];
	struct fitsearch s;
	struct found f = { 0 };
	size_t nr_points = 0;
	int64_t out[FITSEARCH_MAX_ROOM];

	fitsearch_init(&s, nr, nr / 20);
	while (!fitsearch_is_done(&s)) {
		unsigned n = fitsearch_next(&s, point, nr_points, room, out);

		assert_in_range(n, 1, room);
		f.rounds++;
		for (unsigned i = 0; i < n; i++) {
			assert_true(!i || out[i] > out[i - 1]);
			assert_false(n && i == 0 && fitsearch_is_moot(&s, out[i]));
			if (need(out[i]) <= capacity)
				point[nr_points++] = (struct fitsearch_point){
					out[i], fmin(need(out[i]) * (1 + kept), capacity), need(out[i])
				};
		}
		s.capacity_bytes = capacity;
		for (unsigned i = 0; i < n; i++)
			fitsearch_enter(&s, out[i], need(out[i]) <= capacity);
	}
	f.fits = s.fits;
	f.fails = s.fails;
	return f;
}

static int64_t sweep(need_of *need, int64_t nr, double capacity)
{
	int64_t i = 0;

	while (i < nr && need(i) <= capacity)
		i++;
	return i - 1;
}

static void test_finds_what_a_sweep_finds(void **state)
{
	static need_of *const needs[] = { linear, quadratic, stairs };
	static const int64_t nrs[] = { 1, 2, 3, 64, 512, 10000 };
	static const double capacities[] = { 1.2, 2.5, 8, 14, 40, 80, 1e6 };

	(void)state;
	for (size_t k = 0; k < 3; k++)
		for (size_t n = 0; n < 6; n++)
			for (size_t c = 0; c < 7; c++)
				for (unsigned room = 1; room <= 4; room++) {
					double capacity = capacities[c] * GIB;
					struct found f = find(needs[k], nrs[n], room, capacity, 0.05);

					assert_int_equal(f.fits, sweep(needs[k], nrs[n], capacity));
					assert_int_equal(f.fails, f.fits + 1);
					/* Never much worse than a bisection, which takes log2 of them. */
					assert_true(f.rounds <=
						    2 * (unsigned)ceil(log2((double)nrs[n] + 1)) + 2);
				}
}

static void test_two_at_once_settle_a_line(void **state)
{
	(void)state;
	assert_in_range(find(linear, 512, 2, 14 * GIB, 0).rounds, 1, 2);
	assert_in_range(find(linear, 10000, 2, 80 * GIB, 0.02).rounds, 1, 8); /* equal parts: 9 */
}

static void test_what_is_moot(void **state)
{
	struct fitsearch s;

	(void)state;
	fitsearch_init(&s, 10, 3);
	fitsearch_enter(&s, 4, true);
	fitsearch_enter(&s, 7, false);
	assert_true(fitsearch_is_moot(&s, 4));
	assert_true(fitsearch_is_moot(&s, 7));
	assert_false(fitsearch_is_moot(&s, 5));
	/* A contradiction changes nothing. */
	fitsearch_enter(&s, 9, true);
	fitsearch_enter(&s, 2, false);
	assert_int_equal(s.fits, 4);
	assert_int_equal(s.fails, 7);
	assert_false(fitsearch_is_done(&s));
	fitsearch_enter(&s, 5, false);
	assert_true(fitsearch_is_done(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_what_a_sweep_finds),
		cmocka_unit_test(test_two_at_once_settle_a_line),
		cmocka_unit_test(test_what_is_moot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
