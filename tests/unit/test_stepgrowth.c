/* SPDX-License-Identifier: MIT */
/* Growth from step to step, of traces made up: samples of long runs, moved memory, steps that are too few. */
#include "synthetic.h"

#include <math.h>

#include "analyzer/growth/stepgrowth.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"

static struct synthetic s;
static struct replay m;
static struct stepgrowth g;
static const struct stepgrowth_limits limits = STEPGROWTH_LIMITS_USUAL;

static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(&s, TRACE, &header);
	synthetic_device(&s, 0, 1024 * MiB);
	for (uint32_t i = 0; i < 3; i++) {
		synthetic_code(&s, TFMT_STACK_FIRST + i, "step", "train.py", 10 * (i + 1));
		synthetic_frame(&s, TFMT_STACK_FIRST + i, 0, TFMT_FRAME_PYTHON, TFMT_STACK_FIRST + i, 0);
	}
}

static void alloc(uint32_t line, uint64_t address, uint64_t size)
{
	s.python_stack = TFMT_STACK_FIRST + line / 10 - 1;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, address, size, 64 * MiB);
}

static void release(uint64_t address)
{
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, address, 0, 64 * MiB);
}

/* Forward at line 10, and the backward that frees what it has kept. */
static void train(void)
{
	s.flags = TFMT_FLAG_FORWARD;
	alloc(10, 0x1000, 2 * MiB);
	s.flags = 0;
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	release(0x1000);
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
}

static void find(void)
{
	const struct replay_options load = { .quiet = true, .lives = true };

	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, &load), 0);
	assert_int_equal(m.nr_devices, 1);
	stepgrowth_find(&g, &m, &m.device[0], &limits);
}

static void done(void)
{
	stepgrowth_release(&g);
	replay_release(&m);
}

/* Many more steps than samples: what each leaves is still exact, and so is the end. */
static void a_long_run_is_thinned_and_exact(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 0; i < 3000; i++) {
		train();
		alloc(20, 0x100000 + 0x10000 * i, 65536);
	}
	find();
	assert_int_equal(g.nr_steps, 3000);
	assert_in_range(g.nr_readings, STEPSAMPLES_MAX / 2, STEPSAMPLES_MAX);
	assert_int_equal(g.nr_findings, 1);
	assert_int_equal(g.cause[0].class, STEPGROWTH_TENSORS);
	assert_int_equal(books_group(m.process[0].books, g.cause[0].group)->python_stack, TFMT_STACK_FIRST + 1);
	assert_true(g.cause[0].growth.slope_low == 65536 && g.cause[0].growth.slope_high == 65536);
	assert_int_equal(g.cause[0].first_step, 1);
	/* 1024 MiB hold 2 MiB of a step, and 64 KiB of each step before. */
	assert_true(fabs(stepgrowth_oom_step(&g, &limits) - 1022 * 16) <= 2);
	done();
}

/* One place gives up what the other takes. */
static void memory_that_moves_is_no_growth(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 0; i < 100; i++)
		alloc(20, 0x100000 + 0x10000 * i, 65536);
	for (uint64_t i = 0; i < 100; i++) {
		train();
		release(0x100000 + 0x10000 * i);
		alloc(30, 0x9000000 + 0x10000 * i, 65536);
	}
	find();
	assert_int_equal(g.nr_causes, 0);
	assert_true(isnan(stepgrowth_oom_step(&g, &limits)));
	done();
}

/* What is freed after the last step, before an evaluation's forward, has grown all the same. */
static void an_evaluation_behind_is_no_step(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 0; i < 20; i++) {
		train();
		alloc(20, 0x100000 + 0x100000 * i, MiB);
	}
	s.python_stack = TFMT_STACK_FIRST + 2;
	for (uint64_t i = 0; i < 20; i++)
		release(0x100000 + 0x100000 * i);
	s.flags = TFMT_FLAG_FORWARD;
	alloc(10, 0x1000, 2 * MiB);
	find();
	assert_int_equal(g.nr_findings, 1);
	assert_int_equal(g.cause[0].nr_kept, 19);
	assert_int_equal(g.cause[0].nr_freed, 19);
	assert_int_equal(g.cause[0].freed_stack, TFMT_STACK_FIRST + 2);
	done();
}

static void few_steps_tell_nothing(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 0; i < 4; i++) {
		train();
		alloc(20, 0x100000 + 0x100000 * i, MiB);
	}
	find();
	assert_int_equal(g.nr_steps, 4);
	assert_int_equal(g.nr_causes, 0);
	done();
}

/* Large results are gathered until an epoch ends, and let go; the last epoch is cut short. */
static void what_was_let_go_before_is_no_growth(void **state)
{
	(void)state;
	begin();
	for (uint64_t i = 0; i < 40; i++) {
		train();
		alloc(20, 0x10000000 + 0x1000000 * i, 8 * MiB);
		for (uint64_t k = 0; i % 15 == 14 && k < 15; k++)
			release(0x10000000 + 0x1000000 * (i - k));
	}
	find();
	assert_int_equal(g.nr_causes, 0);
	assert_int_equal(g.nr_findings, 0);
	done();
}

/* A cache that is longer in each step, in blocks that the allocator gives as it has them: up to 1 MiB larger. */
static void what_was_asked_for_grows_where_blocks_halt(void **state)
{
	(void)state;
	begin();
	for (uint32_t i = 1; i <= 40; i++)
		synthetic_shape(&s, i, 6, i * 65536ull, i * 16384);
	for (uint64_t i = 1; i <= 40; i++) {
		train();
		if (i > 1)
			release(0x1000000 * (i - 1));
		s.shape = (uint32_t)i;
		alloc(20, 0x1000000 * i, i >= 20 && i % 2 && i < 36 ? 36 * 65536 : i * 65536);
		s.shape = 0;
	}
	find();
	assert_int_equal(g.nr_findings, 1);
	assert_int_equal(g.cause[0].class, STEPGROWTH_SEQUENCE);
	assert_int_equal(g.cause[0].first_step, 1);
	assert_true(g.cause[0].growth.slope == 65536);
	done();
}

/* What stays varies, by chance a little more in the end; the batch of each step, which varies more, hides that. */
static void what_bends_by_chance_is_linear(void **state)
{
	uint32_t random = 12345;

	(void)state;
	begin();
	for (uint64_t i = 0; i < 120; i++) {
		uint32_t batch, slow = i < 25 || i >= 60 ? 3 : 1;

		train();
		if (i)
			release(0x2000);
		random = (random * 1103515245u + 12345) & 0x7fffffff;
		batch = 1 + (random >> 16) % 64;
		random = (random * 1103515245u + 12345) & 0x7fffffff;
		alloc(20, 0x100000 + 0x100000 * i, ((random >> 16) % 8 + 2 * slow) * 16384);
		alloc(30, 0x2000, batch * 65536);
	}
	find();
	assert_int_equal(g.nr_causes, 1);
	assert_true(g.total.quadratic.aicc < g.total.linear.aicc);
	assert_false(g.total.believes_quadratic);
	assert_int_equal(g.total.shape, GROWTH_STEADY);
	assert_true(g.total.limit_step_low < g.total.linear.limit_step_low);
	done();
}

/*
 * Requests of a program without steps, now and then after a long wait: so many temporaries each, made by a model or not, and
 * one block that stays.
 */
static void serve(uint64_t nr_temporaries, bool by_model)
{
	begin();
	for (uint64_t i = 0; i < 1000; i++) {
		for (uint64_t k = 0; k < nr_temporaries; k++) {
			s.flags = by_model ? TFMT_FLAG_FORWARD : 0;
			alloc(10, 0x1000, (2 + (i * 7 + k) % 5) * MiB);
			s.flags = 0;
			release(0x1000);
		}
		alloc(20, 0x100000 + 0x10000 * i, 65536);
		s.time_ns += i % 100 ? 1000000 : 10000000000;
	}
	find();
	assert_int_equal(g.nr_steps, 0);
	assert_int_equal(g.by, by_model ? STEPGROWTH_BY_CALL : STEPGROWTH_BY_EVENTS);
	assert_in_range(g.nr_readings, STEPSAMPLES_MAX / 2, STEPSAMPLES_MAX);
	assert_int_equal(g.nr_causes, 1);
	assert_int_equal(books_group(m.process[0].books, g.cause[0].group)->python_stack, TFMT_STACK_FIRST + 1);
}

/* 1024 MiB hold what a request takes for a while, and 64 KiB of each before. */
static void grows_by(double each)
{
	double full = 1021 * MiB / each;

	assert_int_equal(g.nr_findings, 1);
	assert_int_equal(g.cause[0].first_step, 0);
	assert_true(fabs(g.cause[0].growth.slope - each) < 0.001 * each);
	assert_true(fabs(stepgrowth_oom_step(&g, &limits) - full) < 0.01 * full);
}

static void without_steps_growth_is_by_calls(void **state)
{
	(void)state;
	serve(4, true);
	grows_by(65536);
	done();
}

static void without_calls_growth_is_by_events(void **state)
{
	(void)state;
	serve(4, false);
	grows_by(65536.0 * STEPGROWTH_EVENTS / 9);
	done();
}

static void a_program_that_is_filled_is_no_finding(void **state)
{
	(void)state;
	serve(1, false);
	assert_true(g.is_filled);
	assert_int_equal(g.nr_findings, 0);
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_long_run_is_thinned_and_exact, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(memory_that_moves_is_no_growth, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(an_evaluation_behind_is_no_step, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(few_steps_tell_nothing, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(what_was_let_go_before_is_no_growth, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(what_was_asked_for_grows_where_blocks_halt, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(what_bends_by_chance_is_linear, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(without_steps_growth_is_by_calls, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(without_calls_growth_is_by_events, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(a_program_that_is_filled_is_no_finding, synthetic_enter, synthetic_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
