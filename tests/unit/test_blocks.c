/* SPDX-License-Identifier: MIT */
/* The table of live blocks against a plain array, over many random insertions and removals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/ledger/blocks.h"

#define NR_ADDRESSES 600
#define NR_STEPS 200000

static uint64_t address_of(unsigned i)
{
	return 0x7f0000000000ull + 512ull * i;
}

static void it_agrees_with_an_array(void **state)
{
	static struct block expected[2][NR_ADDRESSES];
	struct blocks table = { 0 };
	uint64_t nr_live = 0;

	(void)state;
	srandom(1);
	for (int step = 0; step < NR_STEPS; step++) {
		uint8_t space = random() & 1 ? BLOCK_TENSOR : BLOCK_DRIVER;
		unsigned i = (unsigned)random() % NR_ADDRESSES;
		struct block *want = &expected[space == BLOCK_DRIVER][i];
		struct block *found = blocks_find(&table, space, address_of(i));

		assert_int_equal(found != NULL, want->space != 0);
		if (found) {
			assert_int_equal(found->size, want->size);
			blocks_remove(&table, found);
			want->space = 0;
			nr_live--;
		} else {
			*want = (struct block){
			    .address = address_of(i), .size = (uint64_t)random(), .space = space };
			blocks_insert(&table, want);
			nr_live++;
		}
		assert_int_equal(table.nr_blocks, nr_live);
	}
	blocks_release(&table);
}

/* What adds, and takes, by address is the same table: as above, with the other pair of functions. */
static void adding_and_taking_agree_with_finding(void **state)
{
	struct blocks table = { 0 };
	uint64_t nr_live = 0;
	bool is_live;

	(void)state;
	srandom(2);
	for (int step = 0; step < NR_STEPS; step++) {
		uint8_t space = random() & 1 ? BLOCK_TENSOR : BLOCK_DRIVER;
		uint64_t address = address_of((unsigned)random() % NR_ADDRESSES);
		const struct block *was_live = blocks_find(&table, space, address), *taken;
		struct block *added;

		if (random() & 1) {
			added = blocks_add(&table, space, address, &is_live);
			assert_int_equal(is_live, was_live != NULL);
			assert_int_equal(added == NULL, is_live);
			if (added) {
				added->size = address + space;
				assert_ptr_equal(blocks_find(&table, space, address), added);
			}
			nr_live += !is_live;
		} else {
			taken = blocks_take(&table, space, address);
			assert_ptr_equal(taken, was_live);
			if (taken)
				assert_int_equal(taken->size, address + space);
			assert_null(blocks_find(&table, space, address));
			nr_live -= was_live != NULL;
		}
		assert_int_equal(table.nr_blocks, nr_live);
	}
	blocks_release(&table);
}

static void an_empty_table_finds_nothing(void **state)
{
	struct blocks table = { 0 };

	(void)state;
	assert_null(blocks_find(&table, BLOCK_TENSOR, 512));
	assert_null(blocks_take(&table, BLOCK_TENSOR, 512));
	blocks_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_agrees_with_an_array),
		cmocka_unit_test(adding_and_taking_agree_with_finding),
		cmocka_unit_test(an_empty_table_finds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
