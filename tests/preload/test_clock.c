/* SPDX-License-Identifier: MIT */
/* The clock of events, by a counter and a real clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libinterpose/arch.h"

static uint64_t counter, real_ns;
static unsigned nr_real;
static uint64_t interrupted_ns; /* in the next reading of the real clock */

static uint64_t test_ticks(void)
{
	return counter;
}

#define arch_ticks test_ticks
#include "libinterpose/clock.c"

uint64_t ip_now_ns(void)
{
	uint64_t ns = real_ns;

	nr_real++;
	real_ns += interrupted_ns;
	counter += 3 * interrupted_ns;
	interrupted_ns = 0;
	return ns;
}

#define MS 1000000u
#define START_TICKS 7000000000u

static struct clock_measure measure;
static struct clock_thread thread;

/* The counter makes `rate` ticks in a nanosecond. */
static void pass(uint64_t ns, double rate)
{
	real_ns += ns;
	counter += (uint64_t)((double)ns * rate);
}

static void pass_and_measure(uint64_t ns, double rate)
{
	pass(ns, rate);
	clock_measure(&measure);
}

/* Two measurements of 3 ticks a nanosecond, and one reading of the thread's. */
static int begin(void **state)
{
	(void)state;
	counter = START_TICKS;
	real_ns = 1000 * (uint64_t)MS;
	measure = (struct clock_measure){ 0 };
	thread = (struct clock_thread){ 0 };
	atomic_store(&clock_rate, 0);
	clock_measure(&measure);
	pass_and_measure(40 * MS, 3);
	pass_and_measure(40 * MS, 3);
	clock_now(&thread);
	nr_real = 0;
	return 0;
}

static void assert_about(uint64_t a, uint64_t b, uint64_t apart)
{
	assert_in_range(a, b - apart, b + apart);
}

static void test_counts_between_readings(void **state)
{
	(void)state;
	assert_int_not_equal(atomic_load(&clock_rate), 0);
	for (unsigned i = 0; i < 100; i++) {
		pass(9000, 3);
		assert_about(clock_now(&thread), real_ns, 1);
	}
	assert_int_equal(nr_real, 0);
	pass(150000, 3);
	assert_int_equal(clock_now(&thread), real_ns);
	assert_int_equal(nr_real, 1);
}

static void test_needs_two_measurements_that_agree(void **state)
{
	struct clock_measure fresh = { 0 };

	(void)state;
	clock_measure(&fresh);
	pass(40 * MS, 3);
	clock_measure(&fresh);
	assert_int_equal(atomic_load(&clock_rate), 0);
	pass(5 * MS, 3); /* too soon to tell */
	clock_measure(&fresh);
	assert_int_equal(atomic_load(&clock_rate), 0);
	pass(35 * MS, 3);
	clock_measure(&fresh);
	assert_int_not_equal(atomic_load(&clock_rate), 0);
}

/* A suspended machine's clock stands still and its counter does not, or the other way round. */
static void test_jumps(void **state)
{
	uint64_t before = clock_now(&thread);

	(void)state;
	counter += 1ull << 40;
	assert_int_equal(clock_now(&thread), real_ns);
	counter = 5;
	real_ns += 3600ull * 1000 * MS;
	assert_int_equal(clock_now(&thread), real_ns);
	assert_true(clock_now(&thread) > before);
	assert_int_equal(nr_real, 2);
}

static void test_rate_that_changes(void **state)
{
	(void)state;
	pass_and_measure(40 * MS, 2.9);
	assert_int_equal(atomic_load(&clock_rate), 0);
	pass(100, 2.9);
	assert_int_equal(clock_now(&thread), real_ns);
	pass_and_measure(40 * MS, 2.9);
	assert_int_not_equal(atomic_load(&clock_rate), 0);
}

/* Processors whose counters differ a little: times do not step back. */
static void test_never_steps_back(void **state)
{
	uint64_t latest = clock_now(&thread);

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t now;

		pass(700, 3);
		counter += i % 2 ? 5000 : 0;
		now = clock_now(&thread);
		counter -= i % 2 ? 5000 : 0;
		assert_true(now >= latest);
		latest = now;
	}
}

/* Readings of the real clock wait, too, until it has caught up with what the counter was ahead by. */
static void test_real_clock_catches_up(void **state)
{
	uint64_t latest;

	(void)state;
	counter += 1500000;
	latest = clock_now(&thread);
	assert_about(latest, real_ns + 500000, 1);
	atomic_store(&clock_rate, 0);
	assert_int_equal(clock_now(&thread), latest);
	pass(MS, 3);
	assert_int_equal(clock_now(&thread), real_ns);
}

/* Interrupted between its readings, a thread does not go on from them; nor does the drain measure with them. */
static void test_interrupted(void **state)
{
	uint64_t rate = atomic_load(&clock_rate);

	(void)state;
	pass(2 * MS, 3);
	interrupted_ns = 30000;
	clock_now(&thread);
	pass(5000, 3);
	assert_int_equal(clock_now(&thread), real_ns);
	pass(5000, 3);
	assert_about(clock_now(&thread), real_ns, 1);
	pass(40 * MS, 3);
	interrupted_ns = 30000;
	clock_measure(&measure);
	assert_int_equal(atomic_load(&clock_rate), rate);
}

/* Nor from one that was made before the rate was known. */
static void test_reading_without_rate(void **state)
{
	(void)state;
	atomic_store(&clock_rate, 0);
	interrupted_ns = 30000;
	clock_now(&thread);
	atomic_store(&clock_rate, (1ull << 32) / 3);
	pass(5000, 3);
	assert_int_equal(clock_now(&thread), real_ns);
}

/* One that ticks every 40 ns is used; one that ticks every 400 is not. */
static void test_slow_counters(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		pass_and_measure(40 * MS, 1 / 40.0);
	assert_int_not_equal(atomic_load(&clock_rate), 0);
	clock_now(&thread);
	pass(400000, 1 / 40.0);
	assert_about(clock_now(&thread), real_ns, 40);
	for (unsigned i = 0; i < 3; i++)
		pass_and_measure(40 * MS, 1 / 400.0);
	assert_int_equal(atomic_load(&clock_rate), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_counts_between_readings, begin),
		cmocka_unit_test_setup(test_needs_two_measurements_that_agree, begin),
		cmocka_unit_test_setup(test_jumps, begin),
		cmocka_unit_test_setup(test_rate_that_changes, begin),
		cmocka_unit_test_setup(test_never_steps_back, begin),
		cmocka_unit_test_setup(test_real_clock_catches_up, begin),
		cmocka_unit_test_setup(test_interrupted, begin),
		cmocka_unit_test_setup(test_reading_without_rate, begin),
		cmocka_unit_test_setup(test_slow_counters, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
