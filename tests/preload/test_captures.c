/* SPDX-License-Identifier: MIT */
/* The set of open captures by itself, with times and a driver of the test's own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "libinterpose/captures.h"
#include "libinterpose/interpose.h"

#define SECOND 1000000000ull
#define HOME ((struct ip_capture_home){ 0, 0 })
#define KEY(stream) ((struct ip_capture_key){ stream, 0 })

static struct ip_captures set;
static uint64_t now;
static unsigned nr_asked;
static bool is_active;

static bool is_capturing(uintptr_t stream)
{
	(void)stream;
	nr_asked++;
	return is_active;
}

static bool forbid(uintptr_t thread)
{
	return ip_captures_forbid(&set, thread, now, is_capturing);
}

static int begin(void **state)
{
	(void)state;
	set = (struct ip_captures){ 0 };
	now = 1000 * SECOND;
	nr_asked = 0;
	is_active = true;
	return 0;
}

static void a_capture_forbids_until_it_ends(void **state)
{
	(void)state;
	assert_false(forbid(0));
	ip_captures_add(&set, KEY(0x500), HOME, now);
	assert_true(forbid(0));
	ip_captures_drop(&set, KEY(0x600));
	assert_true(forbid(0));
	ip_captures_drop(&set, KEY(0x500));
	assert_false(forbid(0));
	assert_int_equal(ip_captures_nr(&set), 0);
	assert_int_equal(nr_asked, 0);
}

/* It ended unseen: the next capture of the stream is not a second one. */
static void a_stream_captures_once(void **state)
{
	(void)state;
	ip_captures_add(&set, KEY(0x500), HOME, now);
	ip_captures_add(&set, KEY(0x500), HOME, now);
	assert_int_equal(ip_captures_nr(&set), 1);
}

static void old_ones_are_asked_once_a_second(void **state)
{
	(void)state;
	ip_captures_add(&set, KEY(0x500), HOME, now);
	now += SECOND - 1;
	assert_true(forbid(0));
	assert_int_equal(nr_asked, 0);
	now += 1;
	assert_true(forbid(0));
	assert_true(forbid(0));
	assert_int_equal(nr_asked, 1);
	now += SECOND;
	is_active = false;
	assert_false(forbid(0));
	assert_int_equal(nr_asked, 2);
	assert_int_equal(ip_captures_nr(&set), 0);
}

/* Still open, and told to be; but no longer in the way of questions. */
static void an_abandoned_one_forbids_for_a_minute(void **state)
{
	(void)state;
	ip_captures_add(&set, KEY(0x500), HOME, now);
	now += 59 * SECOND;
	assert_true(forbid(0));
	now += SECOND;
	assert_false(forbid(0));
	assert_int_equal(ip_captures_nr(&set), 1);
	ip_captures_add(&set, KEY(0x600), HOME, now);
	assert_true(forbid(0));
}

/* The per-thread default stream is another one in each thread, and only its own thread asks it. */
static void threads_have_their_own_default_stream(void **state)
{
	(void)state;
	ip_captures_add(&set, (struct ip_capture_key){ 2, 11 }, HOME, now);
	ip_captures_add(&set, (struct ip_capture_key){ 2, 22 }, HOME, now);
	assert_int_equal(ip_captures_nr(&set), 2);
	now += SECOND;
	forbid(33);
	assert_int_equal(nr_asked, 0);
	is_active = false;
	assert_true(forbid(11));
	assert_int_equal(nr_asked, 1);
	ip_captures_drop(&set, (struct ip_capture_key){ 2, 11 });
	assert_int_equal(ip_captures_nr(&set), 1);
	ip_captures_drop(&set, (struct ip_capture_key){ 2, 22 });
	assert_int_equal(ip_captures_nr(&set), 0);
}

/* While a stream may be going, nobody asks it. */
static void held_streams_are_not_asked(void **state)
{
	uint64_t held;

	(void)state;
	ip_captures_add(&set, KEY(0x500), HOME, now);
	now += SECOND;
	held = ip_captures_hold(&set, KEY(0x500));
	assert_int_not_equal(held, 0);
	assert_true(forbid(0));
	assert_int_equal(nr_asked, 0);
	ip_captures_let_go(&set, held, false);
	assert_true(forbid(0));
	assert_int_equal(nr_asked, 1);
	ip_captures_let_go(&set, ip_captures_hold(&set, KEY(0x500)), true);
	assert_false(forbid(0));
}

static void a_context_takes_its_streams_along(void **state)
{
	struct ip_capture_home created = { 0xc0, 0 }, primary = { 0, 0 }, second = { 0, 1 };

	(void)state;
	ip_captures_add(&set, KEY(0x500), created, now);
	ip_captures_add(&set, KEY(0x600), primary, now);
	ip_captures_add(&set, KEY(0x700), second, now);
	ip_captures_let_go(&set, ip_captures_hold_home(&set, created), true);
	assert_int_equal(ip_captures_nr(&set), 2);
	ip_captures_let_go(&set, ip_captures_hold_home(&set, primary), true);
	assert_int_equal(ip_captures_nr(&set), 1);
	ip_captures_drop(&set, KEY(0x700));
	assert_int_equal(ip_captures_nr(&set), 0);
}

/* A handler has jumped out of the question: who destroys the stream waits for a moment only, and it is asked again. */
static void a_question_may_be_left(void **state)
{
	(void)state;
	ip_captures_add(&set, KEY(0x500), HOME, now);
	set.capture[0].state += 1; /* as it is while the stream is being asked */
	now += SECOND;
	assert_true(forbid(0));
	assert_int_equal(nr_asked, 1);
	set.capture[0].state += 1;
	ip_captures_let_go(&set, ip_captures_hold(&set, KEY(0x500)), true);
	assert_int_equal(ip_captures_nr(&set), 0);
}

static void more_than_there_is_room_for(void **state)
{
	(void)state;
	for (uintptr_t i = 0; i < 2 * IP_CAPTURES_MAX; i++)
		ip_captures_add(&set, KEY(0x1000 + i), HOME, now);
	assert_int_equal(ip_captures_nr(&set), IP_CAPTURES_MAX);
	for (uintptr_t i = 0; i < 2 * IP_CAPTURES_MAX; i++)
		ip_captures_drop(&set, KEY(0x1000 + i));
	assert_int_equal(ip_captures_nr(&set), 0);
}

/* ---- several threads ----------------------------------------------------------------------------- */

#define ROUNDS 20000

static _Atomic bool alive[4];

/* Is a stream asked that is no more? Nothing else may be told of it. */
static bool is_capturing_for_sure(uintptr_t stream)
{
	for (int i = 0; i < 20; i++)
		if (!atomic_load(&alive[stream]))
			abort();
	return true;
}

static void *make_and_destroy(void *arg)
{
	uintptr_t stream = (uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t held;

		atomic_store(&alive[stream], true);
		ip_captures_add(&set, KEY(stream), HOME, SECOND);
		if (i % 3 == 0) {
			ip_captures_drop(&set, KEY(stream));
			continue; /* it ended, and the stream goes on */
		}
		held = ip_captures_hold(&set, KEY(stream));
		atomic_store(&alive[stream], false);
		ip_captures_let_go(&set, held, true);
	}
	return NULL;
}

static void *ask_all(void *arg)
{
	for (uint64_t i = 0; i < ROUNDS; i++)
		ip_captures_forbid(&set, 0, (i + 3) * SECOND, is_capturing_for_sure);
	return arg;
}

/*
 * One thread asks: the time that it says goes a second further with each look, and a second thread would take a question
 * that the first is in the middle of for one that was left a second ago.
 */
static void no_stream_is_asked_that_has_gone(void **state)
{
	pthread_t thread[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, i < 3 ? make_and_destroy : ask_all, (void *)i), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(ip_captures_nr(&set), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_capture_forbids_until_it_ends),
		TEST(a_stream_captures_once),
		TEST(old_ones_are_asked_once_a_second),
		TEST(an_abandoned_one_forbids_for_a_minute),
		TEST(threads_have_their_own_default_stream),
		TEST(held_streams_are_not_asked),
		TEST(a_context_takes_its_streams_along),
		TEST(a_question_may_be_left),
		TEST(more_than_there_is_room_for),
		TEST(no_stream_is_asked_that_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
