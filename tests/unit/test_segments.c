/* SPDX-License-Identifier: MIT */
/* Segments and blocks against an array of cells that is counted anew after every step of a random life. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/allocator/segments.h"

#define CELL 512ull
#define NR_PLACES 12	 /* where a segment may lie, one beside the other */
#define PLACE_CELLS 64
#define PAGE_CELLS 8
#define RANGE_PLACE NR_PLACES /* the last place is a reserved range with pages */
#define NR_CELLS ((NR_PLACES + 1) * PLACE_CELLS)
#define BASE 0x7f0000000000ull
#define NR_STEPS 60000

enum { NOTHING, IDLE, FREE, LIVE, PENDING };

struct cell {
	int state;
	unsigned begin; /* of a block: its first cell + 1 */
	uint16_t stream;
};

static struct cell cell[NR_CELLS];
static unsigned place_cells[NR_PLACES + 1]; /* of the segment there; 0 = none */
static bool place_used[NR_PLACES + 1];
static uint16_t place_stream[NR_PLACES + 1];
static struct segments s;

static uint64_t address_of(unsigned i)
{
	return BASE + CELL * i;
}

static unsigned first_of(unsigned place)
{
	return place * PLACE_CELLS;
}

/* ---- the naive computation ---------------------------------------------------------------------- */

struct sums {
	uint64_t reserved, live, pending, free, whole, split, largest;
	uint64_t of_stream[3];
};

static void add_run(struct sums *sum, unsigned place, unsigned from, unsigned to)
{
	uint64_t bytes = (to - from) * CELL, whole = 0;

	if (place == RANGE_PLACE) {
		for (unsigned page = first_of(place); page < NR_CELLS; page += PAGE_CELLS)
			if (page >= from && page + PAGE_CELLS <= to)
				whole += PAGE_CELLS * CELL;
	} else {
		whole = to - from == place_cells[place] ? bytes : 0;
		sum->split += bytes - whole;
	}
	sum->free += bytes;
	sum->whole += whole;
	sum->of_stream[place_stream[place]] += bytes;
	if (bytes > sum->largest)
		sum->largest = bytes;
}

static struct sums sums_of_cells(void)
{
	struct sums sum = { 0 };

	for (unsigned place = 0; place <= NR_PLACES; place++) {
		unsigned run = 0, first = first_of(place), end = first + PLACE_CELLS;

		for (unsigned i = first; i <= end; i++) {
			int state = i < end ? cell[i].state : NOTHING;

			sum.reserved += state >= FREE ? CELL : 0;
			sum.live += state == LIVE ? CELL : 0;
			sum.pending += state == PENDING ? CELL : 0;
			if (state == FREE) {
				run++;
			} else if (run) {
				add_run(&sum, place, i - run, i);
				run = 0;
			}
		}
	}
	return sum;
}

static void compare(void)
{
	struct sums want = sums_of_cells();

	assert_int_equal(s.reserved_bytes, want.reserved);
	assert_int_equal(s.live_bytes, want.live);
	assert_int_equal(s.pending_bytes, want.pending);
	assert_int_equal(s.free_bytes, want.free);
	assert_int_equal(s.whole_bytes, want.whole);
	assert_int_equal(s.split_bytes, want.split);
	assert_int_equal(segments_largest_free(&s), want.largest);
	for (uint16_t stream = 0; stream < 3; stream++) {
		uint64_t bytes = 0;

		for (uint32_t i = 0; i < s.nr_pools; i++)
			bytes += s.pool[i].stream == stream ? s.pool[i].free_bytes : 0;
		assert_int_equal(bytes, want.of_stream[stream]);
	}
}

/* ---- the random life ---------------------------------------------------------------------------- */

static unsigned any(unsigned nr)
{
	return (unsigned)random() % nr;
}

static void fill(unsigned first, unsigned nr, int state, unsigned begin)
{
	for (unsigned i = first; i < first + nr; i++)
		cell[i] = (struct cell){ .state = state, .begin = begin };
}

static bool is_all_free(unsigned first, unsigned nr)
{
	for (unsigned i = first; i < first + nr; i++)
		if (cell[i].state != FREE && cell[i].state != IDLE)
			return false;
	return true;
}

static void take_or_give(unsigned place)
{
	unsigned first = first_of(place);

	if (!place_cells[place]) {
		place_cells[place] = 1 + any(PLACE_CELLS);
		place_used[place] = false;
		fill(first, place_cells[place], IDLE, 0);
		segments_take(&s, address_of(first), place_cells[place] * CELL);
	} else if (is_all_free(first, place_cells[place])) {
		segments_give(&s, address_of(first), place_cells[place] * CELL);
		fill(first, place_cells[place], NOTHING, 0);
		place_cells[place] = 0;
	}
}

static void map_or_unmap(void)
{
	unsigned page = first_of(RANGE_PLACE) + any(PLACE_CELLS / PAGE_CELLS) * PAGE_CELLS;

	if (cell[page].state == NOTHING) {
		fill(page, PAGE_CELLS, place_used[RANGE_PLACE] ? FREE : IDLE, 0);
		segments_map(&s, address_of(page), PAGE_CELLS * CELL);
	} else if (is_all_free(page, PAGE_CELLS)) {
		fill(page, PAGE_CELLS, NOTHING, 0);
		segments_give(&s, address_of(page), PAGE_CELLS * CELL);
	}
}

static void use(unsigned place)
{
	if (place_used[place])
		return;
	place_used[place] = true;
	place_stream[place] = (uint16_t)any(3);
	for (unsigned i = first_of(place); i < first_of(place) + PLACE_CELLS; i++)
		if (cell[i].state == IDLE)
			cell[i].state = FREE;
}

/* As the allocator does: from the beginning of a free run, or (rarely) from within one. */
static void allocate(unsigned at)
{
	unsigned place = at / PLACE_CELLS, end = at, nr;

	while (end < first_of(place) + PLACE_CELLS && cell[end].state == cell[at].state)
		end++;
	if ((cell[at].state != FREE && cell[at].state != IDLE) || end == at)
		return;
	nr = 1 + any(end - at);
	use(place);
	segments_alloc(&s, &(struct segments_request){ .address = address_of(at),
						       .size = nr * CELL,
						       .requested = nr * CELL - 1,
						       .stream = place_stream[place] });
	fill(at, nr, LIVE, at + 1);
}

static void set_block(unsigned begin, int state)
{
	for (unsigned i = begin; i < NR_CELLS && cell[i].begin == begin + 1; i++) {
		cell[i].state = state;
		if (state == FREE)
			cell[i].begin = 0;
	}
}

static void free_at(unsigned at)
{
	unsigned begin = cell[at].begin - 1;
	bool pending = !any(4);

	if (cell[at].state == LIVE) {
		segments_free(&s, address_of(begin), pending);
		set_block(begin, pending ? PENDING : FREE);
	} else if (cell[at].state == PENDING) {
		segments_complete(&s, address_of(begin));
		set_block(begin, FREE);
	}
}

static void it_agrees_with_counting_cells(void **state)
{
	(void)state;
	srandom(7);
	segments_reserve(&s, address_of(first_of(RANGE_PLACE)), PLACE_CELLS * CELL);
	for (int step = 0; step < NR_STEPS; step++) {
		unsigned what = any(20);

		if (what == 0)
			take_or_give(any(NR_PLACES));
		else if (what == 1)
			map_or_unmap();
		else if (what < 11)
			allocate(any(NR_CELLS));
		else
			free_at(any(NR_CELLS));
		compare();
	}
	segments_release(&s);
}

/* ---- what handing out a block meets ------------------------------------------------------------- */

#define MiB (1ull << 20)

static struct segments_outcome alloc(uint64_t address, uint64_t size, uint16_t stream, uint32_t private_id)
{
	return segments_alloc(&s, &(struct segments_request){ .address = address,
							      .size = size,
							      .requested = size,
							      .stream = stream,
							      .private_id = private_id });
}

/* A segment of 100 MiB, of which a block in the middle is live. */
static void begin_with_a_keeper(void)
{
	s = (struct segments){ 0 };
	segments_take(&s, BASE, 100 * MiB);
	alloc(BASE, 50 * MiB, 0, SEGMENTS_SHARED);
	alloc(BASE + 50 * MiB, 2 * MiB, 0, SEGMENTS_SHARED);
	segments_free(&s, BASE, false);
}

static void a_new_segment_tells_what_was_stuck(void **state)
{
	struct segments_outcome o;

	(void)state;
	begin_with_a_keeper();
	assert_int_equal(segments_largest_free(&s), 50 * MiB);
	segments_take(&s, BASE + 200 * MiB, 60 * MiB);
	o = alloc(BASE + 200 * MiB, 60 * MiB, 0, SEGMENTS_SHARED);
	assert_int_equal(o.grown_bytes, 60 * MiB);
	assert_int_equal(o.stuck_before, 98 * MiB);
	assert_false(o.fitted);
	segments_release(&s);
}

static void other_streams_and_private_pools_are_apart(void **state)
{
	struct segments_outcome o;

	(void)state;
	begin_with_a_keeper();
	segments_take(&s, BASE + 200 * MiB, 20 * MiB);
	o = alloc(BASE + 200 * MiB, 20 * MiB, 3, SEGMENTS_SHARED);
	assert_int_equal(o.free_before, 0);
	segments_take(&s, BASE + 300 * MiB, 20 * MiB);
	o = alloc(BASE + 300 * MiB, 20 * MiB, 0, 1);
	assert_int_equal(o.free_before, 0);
	segments_take(&s, BASE + 400 * MiB, 2 * MiB);
	o = alloc(BASE + 400 * MiB, MiB, 0, SEGMENTS_SHARED); /* of small blocks */
	assert_int_equal(o.free_before, 0);
	assert_int_equal(s.nr_pools, 4);
	segments_release(&s);
}

static void a_block_that_was_not_used_was_not_at_hand(void **state)
{
	struct segments_outcome o;

	(void)state;
	begin_with_a_keeper();
	segments_take(&s, BASE + 200 * MiB, 20 * MiB);
	o = alloc(BASE + 200 * MiB, 20 * MiB, 0, SEGMENTS_SHARED);
	assert_true(o.fitted);
	assert_int_equal(s.pool[s.segment[o.segment].pool].private_id, SEGMENTS_OTHER);
	segments_release(&s);
}

/* A recording may lack frees: what is handed out over live blocks replaces them. */
static void a_block_over_others_replaces_them(void **state)
{
	(void)state;
	begin_with_a_keeper();
	alloc(BASE, 100 * MiB, 0, SEGMENTS_SHARED);
	assert_int_equal(s.live_bytes, 100 * MiB);
	assert_int_equal(s.free_bytes, 0);
	alloc(BASE + 500 * MiB, MiB, 0, SEGMENTS_SHARED);
	assert_int_equal(s.unplaced_bytes, MiB);
	segments_take(&s, BASE, 10 * MiB); /* nor was this given back */
	assert_int_equal(s.reserved_bytes, 0);
	segments_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_agrees_with_counting_cells),
		cmocka_unit_test(a_new_segment_tells_what_was_stuck),
		cmocka_unit_test(other_streams_and_private_pools_are_apart),
		cmocka_unit_test(a_block_that_was_not_used_was_not_at_hand),
		cmocka_unit_test(a_block_over_others_replaces_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
