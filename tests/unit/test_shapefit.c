/* SPDX-License-Identifier: MIT */
/* Peaks of steps that follow the shapes of their batches, in each of the ways that are told apart, and such that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/training/shapefit.h"

#define NR 12
#define MiB 1048576.0

static struct stepinputs_change change[NR + 1];
static uint64_t peak[NR], bound[NR];
static struct stepinputs_place place = { .python_stack = 7, .change = change, .nr_changes = NR + 1 };
static struct stepinputs_device device = { .peak_bytes = peak, .nr_cycles = NR, .place = &place, .nr_places = 1 };
static struct steps steps = { .cycles = { bound, NR, NR } };

/* Batches of [n, length, 16], the last is in question; the cycles end at 10, 20, ... */
static void set(const uint64_t n[static NR + 1], const uint64_t length[static NR + 1])
{
	memset(change, 0, sizeof(change));
	for (uint32_t i = 0; i <= NR; i++) {
		change[i] = (struct stepinputs_change){ .ordinal = 10 * i, .nr = 1, .cycle = i, .nr_dims = 3 };
		change[i].dims[0] = n[i];
		change[i].dims[1] = length[i];
		change[i].dims[2] = 16;
		change[i].bytes = 64 * n[i] * length[i];
		if (i < NR)
			bound[i] = 10 * (i + 1);
	}
}

static bool find(struct shapefit *f)
{
	return shapefit_find(f, &device, &steps, NR, 10 * NR);
}

static const uint64_t varied[NR + 1] = { 8, 3, 9, 5, 12, 4, 7, 11, 6, 10, 3, 8, 40 };
static const uint64_t alike[NR + 1] = { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8 };
static const uint64_t lengths[NR + 1] = { 100, 900, 300, 500, 200, 800, 400, 600, 700, 150, 450, 350, 2000 };

static void in_proportion_to_the_batch(void **state)
{
	struct shapefit f;

	(void)state;
	set(varied, lengths);
	for (uint32_t i = 0; i < NR; i++)
		peak[i] = (uint64_t)(100 * MiB + 5000.0 * (double)(varied[i] * lengths[i]));
	assert_true(find(&f));
	assert_false(f.is_quadratic);
	assert_int_equal(f.python_stack, 7);
	assert_int_equal(f.nr_steps, NR - 1); /* the first is warm-up */
	assert_true(f.r_squared > 0.9999);
	assert_int_equal((uint64_t)(shapefit_at(&f, f.dims) / MiB + 0.5), (uint64_t)(100 + 5000.0 * 40 * 2000 / MiB + 0.5));
	/* Half of what depends on the batch: half the batch, or half the length. */
	assert_int_equal(shapefit_largest(&f, 0, (uint64_t)(100 * MiB + 5000.0 * 20 * 2000 + 1000)), 20);
	assert_int_equal(shapefit_largest(&f, 1, (uint64_t)(100 * MiB + 5000.0 * 40 * 1000 + 1000)), 1000);
	assert_int_equal(shapefit_largest(&f, 2, (uint64_t)(100 * MiB)), 0);
}

static void with_the_square_of_the_length(void **state)
{
	struct shapefit f;

	(void)state;
	set(alike, lengths);
	for (uint32_t i = 0; i < NR; i++)
		peak[i] = (uint64_t)(100 * MiB + 8 * (100.0 * (double)lengths[i] + 50.0 * (double)(lengths[i] * lengths[i])));
	assert_true(find(&f));
	assert_true(f.is_quadratic);
	assert_true(f.r_squared > 0.9999);
	assert_int_equal(shapefit_largest(&f, 1, (uint64_t)(100 * MiB + 8 * (100.0 * 1000 + 50.0 * 1000 * 1000) + 1000)), 1000);
	/* The batch has not varied: what depends on the length is in proportion to it. */
	assert_int_equal(shapefit_largest(&f, 0, (uint64_t)(100 * MiB + 2 * (100.0 * 2000 + 50.0 * 2000 * 2000) + 1000)), 2);
}

static void not_at_all(void **state)
{
	struct shapefit f;

	(void)state;
	set(varied, lengths);
	for (uint32_t i = 0; i < NR; i++)
		peak[i] = (uint64_t)(100 * MiB + 10 * MiB * (i * 7 % 5));
	assert_false(find(&f));
	/* Batches that are all alike tell nothing. */
	set(alike, alike);
	assert_false(find(&f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_proportion_to_the_batch),
		cmocka_unit_test(with_the_square_of_the_length),
		cmocka_unit_test(not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
