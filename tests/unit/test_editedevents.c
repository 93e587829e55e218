/* SPDX-License-Identifier: MIT */
/* A recording's events as other code would have made them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/whatif/editedevents.h"

#define PATH "a.vtr"

static const struct replay_process process = { .path = PATH }, other = { .path = "b.vtr" };
static struct editedevents x;
static const struct tfmt_event *out;

static struct tfmt_event alloc(uint64_t ordinal, uint64_t size)
{
	return (struct tfmt_event){ .kind = TFMT_TENSOR_ALLOC,
				    .ordinal = ordinal,
				    .address = 0x1000 * (ordinal + 1),
				    .size = size,
				    .aux = 1 << 20,
				    .shape = 7,
				    .alloc_ordinal = TFMT_NO_ORDINAL };
}

static struct tfmt_event release(uint64_t ordinal, uint64_t birth)
{
	struct tfmt_event ev = alloc(birth, 1024);

	ev.kind = TFMT_TENSOR_FREE;
	ev.ordinal = ordinal;
	ev.alloc_ordinal = birth;
	return ev;
}

static size_t next(struct tfmt_event ev)
{
	return editedevents_next(&x, &process, &ev, false, &out);
}

static void begin(struct edits *e, size_t failed_step)
{
	e->path = PATH;
	edits_close(e);
	editedevents_init(&x, e, failed_step);
}

static void end(struct edits *e)
{
	editedevents_release(&x);
	edits_release(e);
}

static void requests_have_other_sizes_or_are_not_made(void **state)
{
	struct edits e = { 0 };

	(void)state;
	edits_add(&e, 1, 0.5);
	edits_add(&e, 2, 0);
	begin(&e, SIZE_MAX);
	assert_int_equal(next(alloc(1, 4096)), 1);
	assert_int_equal(out[0].size, 2048);
	assert_int_equal(out[0].shape, 7); /* by which it is known what it is */
	assert_int_equal(next(alloc(2, 4096)), 0);
	assert_int_equal(next(alloc(3, 4096)), 1);
	assert_int_equal(next(release(4, 2)), 0);
	assert_int_equal(next(release(5, 1)), 1);
	assert_int_equal(next(release(6, 1)), 0); /* it has gone */
	end(&e);
}

static void other_processes_stay_as_they_are(void **state)
{
	struct edits e = { 0 };
	struct tfmt_event ev = alloc(1, 4096);

	(void)state;
	edits_add(&e, 1, 0);
	begin(&e, SIZE_MAX);
	assert_int_equal(editedevents_next(&x, &other, &ev, false, &out), 1);
	assert_int_equal(out[0].size, 4096);
	end(&e);
}

/* It goes early, comes again, and goes when it did; one like it is apart. */
static void steps_come_before_their_event(void **state)
{
	struct edits e = { 0 };

	(void)state;
	edits_step(&e, 3, EDIT_FREE, 1);
	edits_step(&e, 5, EDIT_AGAIN, 1);
	edits_step(&e, 7, EDIT_APART, 1);
	edits_step(&e, 8, EDIT_APART_FREE, 1);
	begin(&e, SIZE_MAX);
	assert_int_equal(next(alloc(1, 1024)), 1);
	assert_int_equal(next(alloc(2, 1024)), 1);
	assert_int_equal(next(alloc(3, 1024)), 2);
	assert_int_equal(out[0].kind, TFMT_TENSOR_FREE);
	assert_int_equal(out[0].alloc_ordinal, 1);
	assert_int_equal(out[1].ordinal, 3);
	assert_int_equal(next(alloc(5, 1024)), 2);
	assert_int_equal(out[0].kind, TFMT_TENSOR_ALLOC);
	assert_int_equal(out[0].address, 0x2000);
	assert_int_equal(next(release(6, 1)), 1);
	assert_int_equal(next(alloc(7, 1024)), 2);
	assert_true(out[0].address & EDITS_ADDRESS_APART);
	assert_int_equal(next(alloc(8, 1024)), 2);
	assert_int_equal(out[0].kind, TFMT_TENSOR_FREE);
	end(&e);
}

static void what_the_recording_has_not_has_an_address_of_its_own(void **state)
{
	struct edits e = { 0 };

	(void)state;
	edits_more(&e, 2, 3, 512);
	begin(&e, SIZE_MAX);
	assert_int_equal(next(alloc(2, 1024)), 2);
	assert_int_equal(out[0].size, 512);
	assert_int_equal(out[0].address & EDITS_ADDRESS_MORE, EDITS_ADDRESS_MORE);
	assert_int_equal(next(alloc(3, 1024)), 2);
	assert_int_equal(out[0].kind, TFMT_TENSOR_FREE);
	end(&e);
}

/* The last event is the request that fails: the recording's, or a step's. */
static void the_request_that_fails_comes_last(void **state)
{
	struct tfmt_event ev = alloc(5, 1024);
	struct edits e = { 0 };

	(void)state;
	edits_step(&e, 3, EDIT_FREE, 1);
	edits_step(&e, 5, EDIT_AGAIN, 1);
	edits_step(&e, 5, EDIT_APART, 1);
	begin(&e, 1);
	next(alloc(1, 1024));
	next(alloc(3, 2048));
	assert_int_equal(editedevents_next(&x, &process, &ev, true, &out), 1);
	assert_int_equal(out[0].address, 0x2000);
	end(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_have_other_sizes_or_are_not_made),
		cmocka_unit_test(other_processes_stay_as_they_are),
		cmocka_unit_test(steps_come_before_their_event),
		cmocka_unit_test(what_the_recording_has_not_has_an_address_of_its_own),
		cmocka_unit_test(the_request_that_fails_comes_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
