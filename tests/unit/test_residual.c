/* SPDX-License-Identifier: MIT */
/* What is in use beyond the ledger, in parts: on a real device by steps, on a simulated one as it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/ledger/residual.h"

#define MiB ((int64_t)1 << 20)
#define CAPACITY (1000 * MiB)

static struct residual r;
static uint64_t now;

static int begin(void **state)
{
	(void)state;
	r = (struct residual){ 0 };
	now = 0;
	return 0;
}

static void event(uint8_t kind, uint16_t flags, uint64_t address, int64_t size, int64_t aux)
{
	struct tfmt_event ev = { .kind = kind, .flags = flags, .time_ns = now, .address = address,
				 .size = (uint64_t)size, .aux = (uint64_t)aux };

	residual_event(&r, &ev);
	now += 10;
}

/* Memory taken (or given back) through recorded calls; every new height is the peak so far. */
static void take(unsigned space, int64_t bytes)
{
	residual_ledger(&r, space, bytes);
	if (r.figures.ledger > r.peak_ledger)
		residual_peak(&r, now);
	now += 10;
}

static void sample(int64_t used)
{
	event(TFMT_MEMORY_INFO, 0, 0, CAPACITY - used, CAPACITY);
}

/* The parts at the peak; they add up, whatever they are. */
static struct residual_parts at_peak(void)
{
	struct residual_parts p;

	assert_true(residual_at_peak(&r, &p));
	assert_int_equal(p.ledger, r.peak_ledger);
	assert_int_equal((int64_t)p.used, (int64_t)(p.ledger + p.pool_cached + p.context + p.code + p.local_memory +
						    p.other_processes) + p.unknown);
	return p;
}

static void steps_have_causes(void **state)
{
	struct residual_parts p;

	(void)state;
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	event(TFMT_PROCESS_INFO, 0, 0, 320 * MiB, 100 * MiB);
	sample(420 * MiB); /* 300 of a context */
	event(TFMT_OBJECT_NEW, TFMT_OBJECT_MODULE, 1, 5 * MiB, 0);
	sample(427 * MiB);
	event(TFMT_OBJECT_SET, TFMT_OBJECT_CONTEXT, 2, 1024, 0);
	sample(460 * MiB);
	take(TFMT_SPACE_DEVICE, 10 * MiB);
	sample(474 * MiB); /* 4 of which nothing is known */
	p = at_peak();
	assert_true(p.knows_driver && p.knows_processes);
	assert_int_equal(p.context, 300 * MiB);
	assert_int_equal(p.code, 7 * MiB);
	assert_int_equal(p.local_memory, 33 * MiB);
	assert_int_equal(p.other_processes, 100 * MiB);
	assert_int_equal(p.unknown, 4 * MiB);
}

static void an_unloaded_module_gives_its_step_back(void **state)
{
	struct residual_parts p;

	(void)state;
	event(TFMT_PROCESS_INFO, 0, 0, 300 * MiB, 0);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(320 * MiB);
	event(TFMT_OBJECT_NEW, TFMT_OBJECT_LIBRARY, 1, 0, 0);
	sample(330 * MiB);
	event(TFMT_OBJECT_GONE, TFMT_OBJECT_LIBRARY, 1, 0, 0);
	sample(322 * MiB);
	take(TFMT_SPACE_DEVICE, 1 * MiB);
	sample(323 * MiB);
	p = at_peak();
	assert_int_equal(p.context, 300 * MiB);
	assert_int_equal(p.code, 2 * MiB);
	assert_int_equal(p.unknown, 0);
}

/* Without NVML a context and another process's memory look alike: neither is claimed. */
static void without_processes_all_is_unknown(void **state)
{
	struct residual_parts p;
	uint64_t bytes;
	bool measured;

	(void)state;
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(420 * MiB);
	p = at_peak();
	assert_false(p.knows_driver || p.knows_processes);
	assert_int_equal(p.unknown, 400 * MiB);
	assert_false(residual_process(&p, &bytes, &measured));
}

static void a_model_is_believed(void **state)
{
	struct residual_parts p;

	(void)state;
	residual_modelled(&r, false, 300 * MiB);
	residual_modelled(&r, true, 7 * MiB);
	assert_false(residual_at_peak(&r, &p)); /* no sample: what is modelled is all there is to say */
	event(TFMT_PROCESS_INFO, 0, 0, 327 * MiB, 50 * MiB);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(377 * MiB);
	residual_modelled(&r, true, 3 * MiB);
	take(TFMT_SPACE_DEVICE, 100 * MiB); /* the sample before is the nearest: brought up by 103 */
	p = at_peak();
	assert_int_equal(p.context, 300 * MiB);
	assert_int_equal(p.code, 10 * MiB);
	assert_int_equal(p.other_processes, 50 * MiB);
	assert_int_equal(p.unknown, 0);
	assert_int_equal(p.used, 480 * MiB);
}

/* Of the samples around the peak, the nearer one; at the same distance the one after it. */
static void the_nearest_sample_counts(void **state)
{
	(void)state;
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(420 * MiB);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(450 * MiB);
	sample(490 * MiB);
	assert_int_equal(at_peak().unknown, 410 * MiB);
	now += 1000;
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	now += 5000;
	sample(900 * MiB);
	assert_int_equal(at_peak().unknown, 450 * MiB);
	assert_int_equal(at_peak().used, 510 * MiB);
}

/* What pools keep is no mystery; what they lend out is in the ledger already. */
/* They take 50 between their own sample and the one after the peak: that is not unknown. */
static void other_processes_go_on(void **state)
{
	struct residual_parts p;

	(void)state;
	residual_modelled(&r, false, 300 * MiB);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	event(TFMT_PROCESS_INFO, 0, 0, 320 * MiB, 100 * MiB);
	sample(420 * MiB);
	sample(450 * MiB);
	take(TFMT_SPACE_DEVICE, 10 * MiB);
	sample(480 * MiB);
	p = at_peak();
	assert_int_equal(p.other_processes, 100 * MiB);
	assert_int_equal(p.unknown, 0);
	now += 1000; /* farther away than the one before */
	event(TFMT_PROCESS_INFO, 0, 0, 330 * MiB, 200 * MiB);
	sample(530 * MiB);
	assert_int_equal(at_peak().other_processes, 100 * MiB);
	now += 1000;
	take(TFMT_SPACE_DEVICE, 5 * MiB);
	event(TFMT_PROCESS_INFO, 0, 0, 335 * MiB, 250 * MiB);
	sample(585 * MiB);
	p = at_peak();
	assert_int_equal(p.other_processes, 250 * MiB);
	assert_int_equal(p.unknown, 0);
}

static void pools(void **state)
{
	struct residual_parts p;

	(void)state;
	event(TFMT_PROCESS_INFO, 0, 0, 0, 0);
	take(TFMT_SPACE_POOL, 40 * MiB);
	event(TFMT_POOL_INFO, 0, 0x77, 64 * MiB, 40 * MiB);
	sample(364 * MiB);
	p = at_peak();
	assert_int_equal(p.context, 300 * MiB);
	assert_int_equal(p.pool_cached, 24 * MiB);
	assert_int_equal(p.unknown, 0);
	take(TFMT_SPACE_POOL, 16 * MiB); /* out of what the pool has */
	p = at_peak();
	assert_int_equal(p.pool_cached, 8 * MiB);
	assert_int_equal(p.used, 364 * MiB);
	event(TFMT_OBJECT_GONE, TFMT_OBJECT_POOL, 0x77, 0, 0);
	take(TFMT_SPACE_DEVICE, 1 * MiB);
	sample(357 * MiB);
	assert_int_equal(at_peak().pool_cached, 0);
	event(TFMT_POOL_INFO, 0, 0, 64 * MiB, 40 * MiB); /* the graphs' own: in the ledger */
	sample(357 * MiB);
	assert_int_equal(r.figures.last.pool_cached, 0);
}

/* A ledger that holds more than the driver counts: said as it is, so that the sum stays right. */
static void less_than_the_ledger(void **state)
{
	(void)state;
	event(TFMT_PROCESS_INFO, 0, 0, 300 * MiB, 0);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(320 * MiB);
	take(TFMT_SPACE_DEVICE, 100 * MiB);
	sample(400 * MiB);
	assert_int_equal(at_peak().unknown, -20 * MiB);
}

/* NVML is asked less often than the driver: in between the ledger tells what has changed. */
static void what_nvidia_smi_shows(void **state)
{
	struct residual_parts p;
	uint64_t bytes;
	bool measured;

	(void)state;
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	event(TFMT_PROCESS_INFO, 0, 0, 326 * MiB, 50 * MiB);
	sample(376 * MiB);
	take(TFMT_SPACE_DEVICE, 100 * MiB);
	sample(476 * MiB);
	p = at_peak();
	assert_true(residual_process(&p, &bytes, &measured) && measured);
	assert_int_equal(bytes, 426 * MiB);
	/* In a container, where NVML does not list it. */
	begin(NULL);
	event(TFMT_PROCESS_INFO, 0, 0, 0, 50 * MiB);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(370 * MiB);
	p = at_peak();
	assert_true(residual_process(&p, &bytes, &measured) && !measured);
	assert_int_equal(bytes, 320 * MiB);
}

/* Figures that contradict each other, as between two samples: nothing is known then, and nothing wraps. */
static void what_cannot_be_is_not_known(void **state)
{
	struct residual_parts p;
	uint64_t bytes;
	bool measured;

	(void)state;
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	event(TFMT_PROCESS_INFO, 0, 0, 0, 500 * MiB);
	sample(400 * MiB); /* the others have given memory back meanwhile */
	p = at_peak();
	assert_false(residual_process(&p, &bytes, &measured));
	assert_int_equal(bytes, 0);
	begin(NULL);
	take(TFMT_SPACE_DEVICE, 200 * MiB);
	event(TFMT_PROCESS_INFO, 0, 0, 10 * MiB, 0); /* NVML is behind: 190 less than is recorded */
	take(TFMT_SPACE_DEVICE, -200 * MiB);
	sample(100 * MiB);
	assert_int_equal(r.figures.last.own, 0);
}

static void a_reset_takes_the_context_along(void **state)
{
	(void)state;
	event(TFMT_PROCESS_INFO, 0, 0, 300 * MiB, 0);
	take(TFMT_SPACE_DEVICE, 20 * MiB);
	sample(320 * MiB);
	event(TFMT_RESET, 0, 0, 0, 1); /* a second context: the first stays */
	sample(320 * MiB);
	assert_int_equal(r.figures.last.context, 300 * MiB);
	take(TFMT_SPACE_DEVICE, -20 * MiB);
	event(TFMT_RESET, 0, 0, 0, 0);
	take(TFMT_SPACE_DEVICE, 30 * MiB);
	sample(280 * MiB);
	assert_int_equal(at_peak().context, 250 * MiB);
}

/* Of a damaged or hostile trace: figures wrap around, and nothing else happens (seen by UBSan). */
static void figures_beyond_all_memory(void **state)
{
	(void)state;
	r.figures.ledger = (uint64_t)INT64_MIN;
	event(TFMT_PROCESS_INFO, 0, 0, 1, 0);
	r.figures.ledger = (uint64_t)INT64_MAX;
	event(TFMT_MEMORY_INFO, 0, 0, 0, INT64_MAX);
	r.figures.ledger = 1;
	event(TFMT_PROCESS_INFO, 0, 0, INT64_MIN, 0);
	r.figures.ledger = (uint64_t)INT64_MIN + 5;
	event(TFMT_MEMORY_INFO, 0, 0, 0, INT64_MAX);
	event(TFMT_MEMORY_INFO, 0, 0, 0, 1);
	assert_int_equal(r.figures.nr_samples, 3);
}

/* What other tools tell: so much was free, of nobody knows how much. It is no sample that parts could add up to. */
static void free_of_an_unknown_total(void **state)
{
	(void)state;
	r.figures.ledger = 500 * MiB;
	event(TFMT_MEMORY_INFO, 0, 0, 100 * MiB, 0);
	assert_int_equal(r.figures.nr_samples, 0);
	assert_false(r.figures.has_last);
	assert_true(r.figures.has_free);
	assert_int_equal(r.figures.free, 100 * MiB);
	assert_int_equal(r.figures.free_ledger, 500 * MiB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(steps_have_causes, begin),
		cmocka_unit_test_setup(an_unloaded_module_gives_its_step_back, begin),
		cmocka_unit_test_setup(without_processes_all_is_unknown, begin),
		cmocka_unit_test_setup(a_model_is_believed, begin),
		cmocka_unit_test_setup(the_nearest_sample_counts, begin),
		cmocka_unit_test_setup(other_processes_go_on, begin),
		cmocka_unit_test_setup(pools, begin),
		cmocka_unit_test_setup(less_than_the_ledger, begin),
		cmocka_unit_test_setup(what_nvidia_smi_shows, begin),
		cmocka_unit_test_setup(what_cannot_be_is_not_known, begin),
		cmocka_unit_test_setup(figures_beyond_all_memory, begin),
		cmocka_unit_test_setup(free_of_an_unknown_total, begin),
		cmocka_unit_test_setup(a_reset_takes_the_context_along, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
