/* SPDX-License-Identifier: MIT */
/* Where the drain may run: off one processor, within what it was given, and nobody else with it. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/place.h"

static cpu_set_t all;

static cpu_set_t affinity(void)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	return set;
}

static void assert_affinity(const cpu_set_t *expected)
{
	cpu_set_t now = affinity();

	assert_true(CPU_EQUAL(&now, expected));
}

static void give(const cpu_set_t *set)
{
	assert_int_equal(sched_setaffinity(0, sizeof(*set), set), 0);
}

static int begin(void **state)
{
	(void)state;
	all = affinity();
	return 0;
}

static int end(void **state)
{
	(void)state;
	give(&all);
	return 0;
}

/* Keeps away from where it runs, wherever that is, until the kernel has not moved the test in between. */
static unsigned leave_processor(struct place *p)
{
	cpu_set_t now;
	unsigned here;

	do {
		here = (unsigned)sched_getcpu();
		place_avoid(p, here);
		now = affinity();
	} while (CPU_ISSET(here, &now));
	return here;
}

static void test_leaves_the_processor(void **state)
{
	struct place p = { 0 };
	cpu_set_t expected = all;
	unsigned left;

	(void)state;
	if (CPU_COUNT(&all) < 2)
		skip();
	left = leave_processor(&p);
	CPU_CLR(left, &expected);
	assert_affinity(&expected);
	assert_int_not_equal(sched_getcpu(), left);

	/* The next one is left for all others that were given, the first one among them. */
	expected = all;
	CPU_CLR(leave_processor(&p), &expected);
	assert_affinity(&expected);
}

static void test_stays_where_it_is_alone(void **state)
{
	struct place p = { 0 };
	unsigned here = (unsigned)sched_getcpu();
	cpu_set_t one;

	(void)state;
	CPU_ZERO(&one);
	CPU_SET(here, &one);
	give(&one);
	place_avoid(&p, here);
	assert_affinity(&one);
	place_avoid(&p, here + 1);
	place_avoid(&p, UINT32_MAX);
	assert_affinity(&one);
}

/* Somebody else's will holds: pinned to one processor from outside, it stays there, though that is the program's. */
static void test_obeys(void **state)
{
	struct place p = { 0 };
	unsigned left;
	cpu_set_t one;

	(void)state;
	if (CPU_COUNT(&all) < 2)
		skip();
	left = leave_processor(&p);
	CPU_ZERO(&one);
	CPU_SET(left, &one);
	give(&one);
	place_avoid(&p, left);
	assert_affinity(&one);
}

static void *their_affinity(void *arg)
{
	*(cpu_set_t *)arg = affinity();
	return NULL;
}

static void *drain(void *arg)
{
	struct place p = { 0 };

	(void)arg;
	leave_processor(&p);
	return NULL;
}

static void test_moves_nobody_else(void **state)
{
	cpu_set_t theirs;
	pthread_t thread;

	(void)state;
	if (CPU_COUNT(&all) < 2)
		skip();
	pthread_create(&thread, NULL, drain, NULL);
	pthread_join(thread, NULL);
	assert_affinity(&all);
	pthread_create(&thread, NULL, their_affinity, &theirs);
	pthread_join(thread, NULL);
	assert_true(CPU_EQUAL(&theirs, &all));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_leaves_the_processor, begin, end),
		cmocka_unit_test_setup_teardown(test_stays_where_it_is_alone, begin, end),
		cmocka_unit_test_setup_teardown(test_obeys, begin, end),
		cmocka_unit_test_setup_teardown(test_moves_nobody_else, begin, end),
	};

	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
