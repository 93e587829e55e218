/* SPDX-License-Identifier: MIT */
/* What the blocks of a part of a job hold together at most, with edits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/changes/editpeak.h"

#define NR_BLOCKS 3

/* Blocks of 100, 200 and 400 bytes from events 10, 20 and 30 to 40, 50 and 60: 700 at most. */
struct part {
	struct category_block block[NR_BLOCKS];
	struct jobpart j;
};

static int set_up(void **state)
{
	static struct part p;

	p = (struct part){ .j = { .from = 5, .to = 100 } };
	for (uint64_t i = 0; i < NR_BLOCKS; i++) {
		struct life *life = &p.block[i].life;

		life->birth.ordinal = 10 + 10 * i;
		life->death.ordinal = 40 + 10 * i;
		life->size = 100ull << i;
	}
	p.j.blocks = (struct categories){ .block = p.block, .nr_blocks = NR_BLOCKS };
	*state = &p;
	return 0;
}

static uint64_t peak(void **state, struct edits *e)
{
	return editpeak_once(&((struct part *)*state)->j, e);
}

static void without_edits_it_is_the_sum(void **state)
{
	struct edits e = { 0 };

	assert_int_equal(peak(state, &e), 700);
}

static void requests_are_smaller_or_not_made(void **state)
{
	struct edits e = { 0 };

	edits_add(&e, 20, 0.5);
	edits_resize(&e, 30, 0);
	edits_resize(&e, 10, 120);
	assert_int_equal(peak(state, &e), 220);
}

static void a_block_is_given_back_early_once(void **state)
{
	struct edits e = { 0 };

	edits_step(&e, 25, EDIT_FREE, 10);
	edits_step(&e, 26, EDIT_FREE, 10);
	edits_step(&e, 45, EDIT_FREE, 10); /* after its own end */
	assert_int_equal(peak(state, &e), 600);
}

static void a_block_comes_again_at_its_own_size(void **state)
{
	struct edits e = { 0 };

	edits_add(&e, 30, 0.25);
	edits_step(&e, 15, EDIT_FREE, 10);
	edits_step(&e, 35, EDIT_AGAIN, 10);
	assert_int_equal(peak(state, &e), 400);
}

static void one_like_it_is_made_after_its_time(void **state)
{
	struct edits e = { 0 };

	edits_step(&e, 70, EDIT_APART, 30);
	edits_step(&e, 71, EDIT_APART, 20);
	edits_step(&e, 80, EDIT_APART_FREE, 30);
	edits_step(&e, 80, EDIT_APART, 10);
	assert_int_equal(peak(state, &e), 700);
	edits_step(&e, 39, EDIT_APART, 30);
	assert_int_equal(peak(state, &e), 1100);
}

/* Before event 30, whose block is not there yet; and before event 31. */
static void what_nobody_asked_for_is_there_between_two_events(void **state)
{
	struct edits e = { 0 };

	edits_more(&e, 0, 31, 1000);
	edits_more(&e, 31, TFMT_NO_ORDINAL, 50);
	edits_more(&e, 50, 50, 1 << 20);
	assert_int_equal(peak(state, &e), 1700);
}

static void steps_of_one_event_are_done_one_after_another(void **state)
{
	struct edits e = { 0 };

	edits_more(&e, 12, 35, 1000);
	edits_more(&e, 35, 36, 1000);
	assert_int_equal(peak(state, &e), 1700);
}

static void what_is_there_for_a_moment_is_there_between_two_events(void **state)
{
	struct edits e = { 0 };

	edits_moment(&e, 30, 500);
	edits_moment(&e, 41, 150); /* the first block has gone */
	assert_int_equal(peak(state, &e), 800);
}

static void the_failed_request_has_an_edit(void **state)
{
	struct part *p = *state;
	struct edits e = { 0 };

	p->j.asked = 5000;
	assert_int_equal(peak(state, &e), 5000);
	edits_resize(&e, p->j.to, 3000);
	edits_more(&e, p->j.to, TFMT_NO_ORDINAL, 30);
	assert_int_equal(peak(state, &e), 3030);
}

static void what_is_not_known_block_by_block_stays(void **state)
{
	struct part *p = *state;
	struct edits e = { 0 };

	p->j.base = 10;
	edits_resize(&e, 30, 0);
	assert_int_equal(peak(state, &e), 310);
	p->j.floor = 650;
	edits_resize(&e, 30, 0);
	assert_int_equal(peak(state, &e), 650);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_edits_it_is_the_sum, set_up),
		cmocka_unit_test_setup(requests_are_smaller_or_not_made, set_up),
		cmocka_unit_test_setup(a_block_is_given_back_early_once, set_up),
		cmocka_unit_test_setup(a_block_comes_again_at_its_own_size, set_up),
		cmocka_unit_test_setup(one_like_it_is_made_after_its_time, set_up),
		cmocka_unit_test_setup(what_nobody_asked_for_is_there_between_two_events, set_up),
		cmocka_unit_test_setup(steps_of_one_event_are_done_one_after_another, set_up),
		cmocka_unit_test_setup(what_is_there_for_a_moment_is_there_between_two_events, set_up),
		cmocka_unit_test_setup(the_failed_request_has_an_edit, set_up),
		cmocka_unit_test_setup(what_is_not_known_block_by_block_stays, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
