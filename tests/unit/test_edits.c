/* SPDX-License-Identifier: MIT */
/* What other code would have asked for: edits by birth, steps in their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/whatif/edits.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edits_are_found_by_birth),
		cmocka_unit_test(what_is_made_at_all_has_a_byte),
		cmocka_unit_test(steps_come_in_the_order_of_events_then_as_they_were_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
