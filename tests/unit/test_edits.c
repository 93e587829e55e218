/* SPDX-License-Identifier: MIT */
/* What other code would have asked for: edits by birth, steps in their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/whatif/edits.h"
#include "tracefmt/tracefmt.h"

static void edits_are_found_by_birth(void **state)
{
	struct edits e = { 0 };

	(void)state;
	assert_null(edits_find(&e, 3));
	edits_add(&e, 3, 0.5);
	edits_add(&e, 8, 0);
	edits_add(&e, 1ull << 40, 2);
	edits_close(&e);
	assert_int_equal(edit_bytes(edits_find(&e, 3), 1000), 500);
	assert_int_equal(edit_bytes(edits_find(&e, 8), 1000), 0);
	assert_int_equal(edit_bytes(edits_find(&e, 1ull << 40), 1000), 2000);
	assert_null(edits_find(&e, 4));
	edits_release(&e);
}

static void what_is_made_at_all_has_a_byte(void **state)
{
	struct edit small = { .factor = 0.001 }, none = { .factor = 0 };

	(void)state;
	assert_int_equal(edit_bytes(&small, 4), 1);
	assert_int_equal(edit_bytes(&none, 4), 0);
}

static void steps_come_in_the_order_of_events_then_as_they_were_added(void **state)
{
	static const uint64_t births[] = { 4, 1, 2, 3 };
	struct edits e = { 0 };

	(void)state;
	edits_step(&e, 9, EDIT_FREE, 1);
	edits_step(&e, 9, EDIT_AGAIN, 2);
	edits_step(&e, 12, EDIT_FREE, 3);
	edits_step(&e, 2, EDIT_APART, 4);
	edits_close(&e);
	for (size_t i = 0; i < e.nr_steps; i++)
		assert_int_equal(e.step[i].birth, births[i]);
	edits_release(&e);
}

static void a_block_whose_time_changes_has_an_edit(void **state)
{
	struct edits e = { 0 };

	(void)state;
	edits_resize(&e, 4, 64);
	edits_step(&e, 9, EDIT_FREE, 4);
	edits_step(&e, 9, EDIT_FREE, 2);
	edits_step(&e, 12, EDIT_AGAIN, 2);
	edits_more(&e, 1, 7, 100); /* which no block is of */
	edits_close(&e);
	assert_int_equal(e.nr, 2);
	assert_int_equal(edit_bytes(edits_find(&e, 4), 1000), 64);
	assert_int_equal(edit_bytes(edits_find(&e, 2), 1000), 1000);
	edits_release(&e);
}

static void what_the_recording_has_not_comes_and_goes(void **state)
{
	struct edits e = { 0 };

	(void)state;
	edits_more(&e, 5, 3, 100);
	edits_more(&e, 5, 9, 0);
	assert_int_equal(e.nr_steps, 0);
	edits_more(&e, 5, 9, 100);
	edits_more(&e, 3, TFMT_NO_ORDINAL, 200);
	edits_close(&e);
	assert_int_equal(e.nr_steps, 3);
	assert_int_equal(e.step[0].kind, EDIT_MORE);
	assert_int_equal(e.more[e.step[0].birth].bytes, 200);
	assert_int_equal(e.step[1].at, 5);
	assert_int_equal(e.step[2].kind, EDIT_MORE_FREE);
	edits_release(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edits_are_found_by_birth),
		cmocka_unit_test(what_is_made_at_all_has_a_byte),
		cmocka_unit_test(steps_come_in_the_order_of_events_then_as_they_were_added),
		cmocka_unit_test(a_block_whose_time_changes_has_an_edit),
		cmocka_unit_test(what_the_recording_has_not_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
