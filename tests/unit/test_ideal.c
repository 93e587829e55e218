/* SPDX-License-Identifier: MIT */
/* Blocks laid out by somebody who knows how long they live. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/whatif/ideal.h"

#define MIB (1ull << 20)

static uint64_t placed(struct ideal *i)
{
	uint64_t bytes;

	assert_true(ideal_place(i, &bytes));
	ideal_release(i);
	return bytes;
}

static void blocks_that_never_meet_share_a_place(void **state)
{
	struct ideal i = { 0 };

	(void)state;
	for (int k = 0; k < 100; k++) {
		ideal_alloc(&i, 0, (uint64_t)(2 + k % 8) * MIB);
		ideal_free(&i, 0);
	}
	assert_int_equal(placed(&i), 10 * MIB);
}

/* An allocator that does not know the future puts the short one first, and the long one after it. */
static void what_stays_does_not_split_what_goes(void **state)
{
	struct ideal i = { 0 };

	(void)state;
	ideal_alloc(&i, 0, 10 * MIB);
	ideal_alloc(&i, 1, 2 * MIB);
	ideal_free(&i, 0);
	ideal_alloc(&i, 2, 20 * MIB);
	assert_int_equal(placed(&i), 22 * MIB);
}

static void small_blocks_count_by_their_bytes(void **state)
{
	struct ideal i = { 0 };

	(void)state;
	for (uint32_t k = 0; k < 5000; k++)
		ideal_alloc(&i, k, 1000);
	for (uint32_t k = 0; k < 5000; k++)
		ideal_free(&i, k);
	assert_int_equal(placed(&i), 6 * MIB); /* 5000 blocks of 1,024 bytes: 4.9 MiB, in what the driver hands out */
}

static void nothing_needs_nothing(void **state)
{
	struct ideal i = { 0 };

	(void)state;
	ideal_free(&i, 7);
	assert_int_equal(placed(&i), 0);
}

/* A slot that comes anew without its free, and a device that is reset. */
static void what_was_there_goes(void **state)
{
	struct ideal i = { 0 };

	(void)state;
	ideal_alloc(&i, 0, 8 * MIB);
	ideal_alloc(&i, 0, 8 * MIB);
	ideal_alloc(&i, 1, 4 * MIB);
	ideal_reset(&i);
	ideal_alloc(&i, 2, 6 * MIB);
	assert_int_equal(placed(&i), 12 * MIB);
}

/* Against all blocks of a random job: nobody is where another is, and no less than the most together. */
static void the_most_together_is_enough_or_nearly(void **state)
{
	struct ideal i = { 0 };
	uint64_t now = 0, most = 0, of[64] = { 0 };
	uint32_t seed = 12345;

	(void)state;
	for (int k = 0; k < 20000; k++) {
		uint32_t slot;

		seed = seed * 1664525 + 1013904223;
		slot = seed >> 26;
		if (of[slot]) {
			ideal_free(&i, slot);
			now -= of[slot];
			of[slot] = 0;
			continue;
		}
		of[slot] = (2 + (seed >> 8) % 40) * MIB;
		ideal_alloc(&i, slot, of[slot]);
		now += of[slot];
		most = now > most ? now : most;
	}
	now = placed(&i);
	assert_true(now >= most && now < most + most / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_that_never_meet_share_a_place),
		cmocka_unit_test(what_stays_does_not_split_what_goes),
		cmocka_unit_test(small_blocks_count_by_their_bytes),
		cmocka_unit_test(nothing_needs_nothing),
		cmocka_unit_test(what_was_there_goes),
		cmocka_unit_test(the_most_together_is_enough_or_nearly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
