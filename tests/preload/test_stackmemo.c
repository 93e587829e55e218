/* SPDX-License-Identifier: MIT */
/* The memo of stack ids by itself: what it says of a key is what was stored for that key, in whatever order it is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/stackmemo.h"

static struct stackmemo memo;

static int begin(void **state)
{
	(void)state;
	memset(&memo, 0, sizeof(memo));
	return 0;
}

static uint32_t id_of(uint64_t key)
{
	return (uint32_t)(key * 7 + 1) | 1;
}

/* Asks for a key; true if its id was known. */
static bool ask(uint64_t key)
{
	struct stackmemo_entry *e = stackmemo_find(&memo, key);
	bool known = e->id != 0;

	assert_true(e->key == key);
	if (known)
		assert_int_equal(e->id, id_of(key));
	e->id = id_of(key);
	return known;
}

static void an_id_is_its_keys(void **state)
{
	(void)state;
	for (uint64_t key = 0; key < 1000; key++)
		assert_false(ask(key << 40));
	for (uint64_t key = 1000; key-- > 0;)
		assert_true(ask(key << 40));
	assert_int_equal(memo.nr, 1000);
}

/* The entry that comes next is known, so that the table of slots is not looked at: it may as well be empty. */
static void the_order_of_the_step_before_is_remembered(void **state)
{
	(void)state;
	for (int step = 0; step < 2; step++)
		for (uint64_t key = 1; key <= 500; key++)
			ask(key % 50 ? key : 50);
	assert_true(ask(1));
	memset(memo.slot, 0, sizeof(memo.slot));
	for (uint64_t key = 2; key < 50; key++)
		assert_true(ask(key));
	assert_int_equal(memo.nr, 491);
}

/* Of more keys than there is room for none is mistaken for another. */
static void a_full_memo_begins_anew(void **state)
{
	unsigned nr_known = 0;

	(void)state;
	for (int step = 0; step < 3; step++)
		for (uint64_t key = 0; key < STACKMEMO_MAX + 100; key++)
			nr_known += ask(key * 0x10001);
	assert_in_range(memo.nr, 1, STACKMEMO_MAX - 1);
	assert_true(nr_known < STACKMEMO_MAX);
	assert_true(ask((STACKMEMO_MAX + 99) * 0x10001ull));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_id_is_its_keys, begin),
		cmocka_unit_test_setup(the_order_of_the_step_before_is_remembered, begin),
		cmocka_unit_test_setup(a_full_memo_begins_anew, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
