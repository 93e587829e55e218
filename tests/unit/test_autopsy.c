/* SPDX-License-Identifier: MIT */
/* Failed requests: which were handled, what the driver had, and the causes that show in figures alone. */
#include "synthetic.h"

#include "analyzer/oom/autopsy.h"
#include "analyzer/failures/fatal.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"
#define PID 1

/* Stacks: 3 keeps, 4 asks. */
static void begin(struct synthetic *s)
{
	struct tfmt_header header = synthetic_header(PID);

	synthetic_open(s, TRACE, &header);
	synthetic_device(s, 0, 1024 * MiB);
	synthetic_code(s, 1, "keep", "/src/train.py", 10);
	synthetic_code(s, 2, "ask", "/src/train.py", 20);
	synthetic_frame(s, 3, 0, TFMT_FRAME_PYTHON, 1, 0);
	synthetic_frame(s, 4, 0, TFMT_FRAME_PYTHON, 2, 0);
	synthetic_function(s, 1, "cudaMalloc");
	s->python_stack = 3;
}

/* A segment of the driver's and a tensor in it. */
static void hold(struct synthetic *s, uint64_t address, uint64_t segment, uint64_t tensor, uint64_t reserved)
{
	s->function = 1;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, address, segment, 0);
	s->function = 0;
	synthetic_event(s, TFMT_TENSOR_ALLOC, 0, address, tensor, reserved);
}

static void sample(struct synthetic *s, uint64_t free_bytes)
{
	synthetic_event(s, TFMT_MEMORY_INFO, 0, 0, free_bytes, 1024 * MiB);
}

static void refuse(struct synthetic *s, uint64_t bytes)
{
	s->python_stack = 4;
	synthetic_event(s, TFMT_ALLOC_FAILED, 0, 0, bytes, 2);
}

static void run_out(struct synthetic *s, uint64_t bytes, uint64_t allocated, uint64_t reserved)
{
	s->python_stack = 4;
	synthetic_event(s, TFMT_TENSOR_OOM, 0, allocated, bytes, reserved);
}

static struct failures failures;
static struct replay m;
static struct autopsy a;

static void examine(struct synthetic *s)
{
	static const struct replay_options load = {
		.quiet = true,
		.lives = true,
		.observe = failures_observe,
		.ctx = &failures,
	};

	synthetic_close(s, 1);
	assert_int_equal(replay_load(&m, TRACE, &load), 0);
	assert_int_equal(m.nr_devices, 1);
	autopsy_make(&a, &m, &m.device[0], &failures);
}

static void release(void)
{
	autopsy_release(&a);
	failures_release(&failures);
	replay_release(&m);
}

static void driver_changes_since_its_sample_count(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 600 * MiB, 600 * MiB, 600 * MiB);
	hold(&s, 0x80000000, 100 * MiB, 100 * MiB, 700 * MiB);
	sample(&s, 200 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x80000000, 0, 700 * MiB);
	refuse(&s, 502 * MiB);
	synthetic_event(&s, TFMT_DRIVER_FREE, 0, 0x80000000, 0, 0);
	refuse(&s, 502 * MiB);
	run_out(&s, 501 * MiB, 600 * MiB, 600 * MiB);
	examine(&s);
	assert_int_equal(failures_of(&failures, &m.device[0])->nr_all, 1);
	assert_true(a.failure->free_known);
	assert_int_equal(a.failure->free, 300 * MiB);
	assert_int_equal(a.failure->refused, 502 * MiB);
	assert_int_equal(a.lacking, 202 * MiB);
	assert_int_equal(a.largest_fit, 300 * MiB);
	assert_int_equal(a.outside, 124 * MiB);
	assert_int_equal(a.cached, 0);
	assert_int_equal(a.nr_findings, 1);
	assert_string_equal(a.finding[0].cause, "sum");
	assert_string_equal(a.finding[0].site.function, "ask");
	assert_int_equal(a.nr_places, 1);
	assert_string_equal(a.place[0].frame.function, "keep");
	assert_int_equal(a.place[0].bytes, 600 * MiB);
	release();
}

/* As only a damaged or a forged recording has them: what they hold is of no place that is known. */
static void stacks_that_cannot_be_are_one_place(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	s.python_stack = UINT32_MAX;
	hold(&s, 0x40000000, 100 * MiB, 100 * MiB, 300 * MiB);
	s.python_stack = 1u << 31;
	hold(&s, 0x80000000, 50 * MiB, 50 * MiB, 350 * MiB);
	run_out(&s, 900 * MiB, 350 * MiB, 350 * MiB);
	examine(&s);
	assert_int_equal(a.nr_places, 2);
	assert_int_equal(a.place[0].bytes, 200 * MiB);
	assert_int_equal(a.place[1].bytes, 150 * MiB);
	assert_int_equal(a.place[1].blocks, 2);
	release();
}

static void without_a_refusal_it_is_a_limit(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	sample(&s, 700 * MiB);
	run_out(&s, 100 * MiB, 200 * MiB, 200 * MiB);
	examine(&s);
	assert_int_equal(a.finding[0].verdict, VERDICT_USER_LIMIT);
	assert_int_equal(a.failure->refused, 0);
	assert_int_equal(a.lacking, 0);
	release();
}

static void cached_memory_that_would_do_is_fragmentation(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 900 * MiB, 300 * MiB, 900 * MiB);
	sample(&s, 20 * MiB);
	refuse(&s, 400 * MiB);
	run_out(&s, 400 * MiB, 300 * MiB, 900 * MiB);
	examine(&s);
	assert_int_equal(a.finding[0].verdict, VERDICT_FRAGMENTATION);
	assert_int_equal(a.finding[0].bytes, 600 * MiB);
	release();
}

static void less_cached_memory_is_none(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 900 * MiB, 600 * MiB, 900 * MiB);
	sample(&s, 20 * MiB);
	refuse(&s, 400 * MiB);
	run_out(&s, 400 * MiB, 600 * MiB, 900 * MiB);
	examine(&s);
	assert_int_equal(a.finding[0].verdict, VERDICT_TOO_BIG);
	release();
}

static void libraries_may_hold_it(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	sample(&s, 20 * MiB);
	refuse(&s, 100 * MiB);
	run_out(&s, 100 * MiB, 200 * MiB, 200 * MiB);
	examine(&s);
	/* 804 MiB are outside, but a context may take so much. */
	assert_int_equal(a.outside, 804 * MiB);
	assert_int_equal(a.finding[0].verdict, VERDICT_TOO_BIG);
	release();
}

static void more_than_the_device_never_fits(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	sample(&s, 900 * MiB);
	refuse(&s, 1026 * MiB);
	run_out(&s, 1025 * MiB, 0, 0);
	examine(&s);
	assert_string_equal(a.finding[0].cause, "never_fits");
	assert_int_equal(a.nr_places, 0);
	release();
}

static void asking_again_with_success_handles_it(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	run_out(&s, 900 * MiB, 0, 0);
	run_out(&s, 800 * MiB, 0, 0);
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	examine(&s);
	assert_null(fatal_device(&failures, &m));
	assert_int_equal(failures_of(&failures, &m.device[0])->nr_handled, 2);
	release();
}

static void other_allocations_do_not(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	run_out(&s, 900 * MiB, 0, 0);
	s.python_stack = 3;
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	examine(&s);
	assert_ptr_equal(fatal_device(&failures, &m), &m.device[0]);
	release();
}

static void a_later_backward_pass_handles_it(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	run_out(&s, 900 * MiB, 0, 0);
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	run_out(&s, 800 * MiB, 0, 0);
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	run_out(&s, 700 * MiB, 0, 0);
	examine(&s);
	assert_int_equal(failures_of(&failures, &m.device[0])->nr_handled, 2);
	assert_int_equal(fatal_request(failures_of(&failures, &m.device[0]))->asked, 700 * MiB);
	release();
}

static void on_thread(struct synthetic *s, uint32_t id, uint32_t tid)
{
	uint8_t buf[64];

	synthetic_define(s, TFMT_DEF_THREAD, id, buf, tfmt_put_string(tfmt_put_varint(buf, tid), "python", 6));
	s->thread = id;
}

static void others_that_ask_after_the_main_thread_failed_do_not_count(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	on_thread(&s, 2, PID + 1);
	run_out(&s, 900 * MiB, 0, 0);
	on_thread(&s, 1, PID);
	run_out(&s, 800 * MiB, 0, 0);
	s.thread = 2;
	run_out(&s, 700 * MiB, 0, 0);
	examine(&s);
	assert_int_equal(failures_of(&failures, &m.device[0])->nr_failures, 3);
	assert_int_equal(fatal_request(failures_of(&failures, &m.device[0]))->asked, 800 * MiB);
	assert_int_equal(a.failure->asked, 800 * MiB);
	release();
}

static void others_that_ask_after_the_main_thread_went_on_count(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	on_thread(&s, 1, PID);
	run_out(&s, 900 * MiB, 0, 0);
	s.python_stack = 3;
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	on_thread(&s, 2, PID + 1);
	run_out(&s, 700 * MiB, 200 * MiB, 200 * MiB);
	examine(&s);
	assert_int_equal(a.failure->asked, 700 * MiB);
	release();
}

static void others_that_go_on_without_the_main_thread_count(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	hold(&s, 0x10000000, 200 * MiB, 200 * MiB, 200 * MiB);
	on_thread(&s, 1, PID);
	run_out(&s, 900 * MiB, 200 * MiB, 200 * MiB);
	on_thread(&s, 2, PID + 1);
	s.python_stack = 3;
	hold(&s, 0x80000000, 300 * MiB, 300 * MiB, 500 * MiB);
	run_out(&s, 700 * MiB, 500 * MiB, 500 * MiB);
	examine(&s);
	assert_int_equal(a.failure->asked, 700 * MiB);
	release();
}

static void sizes_before_an_event_are_known(void **state)
{
	struct synthetic s;

	(void)state;
	begin(&s);
	for (uint64_t i = 1; i <= 8; i++)
		synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x10000000 * i, i * MiB, 0);
	run_out(&s, 700 * MiB, 36 * MiB, 36 * MiB);
	examine(&s);
	assert_int_equal(failures_largest_before(&failures, &m.process[0], 3, UINT64_MAX), 8 * MiB);
	assert_int_equal(failures_largest_before(&failures, &m.process[0], 3, a.failure->ordinal - 1),
			 7 * MiB);
	/* The records kept are those of 3 MiB and more: before them it is no more than that. */
	assert_int_equal(failures_largest_before(&failures, &m.process[0], 3, 1), 3 * MiB);
	assert_int_equal(failures_largest_before(&failures, &m.process[0], 99, UINT64_MAX), 0);
	release();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(driver_changes_since_its_sample_count),
		cmocka_unit_test(stacks_that_cannot_be_are_one_place),
		cmocka_unit_test(without_a_refusal_it_is_a_limit),
		cmocka_unit_test(cached_memory_that_would_do_is_fragmentation),
		cmocka_unit_test(less_cached_memory_is_none),
		cmocka_unit_test(libraries_may_hold_it),
		cmocka_unit_test(more_than_the_device_never_fits),
		cmocka_unit_test(asking_again_with_success_handles_it),
		cmocka_unit_test(other_allocations_do_not),
		cmocka_unit_test(a_later_backward_pass_handles_it),
		cmocka_unit_test(others_that_ask_after_the_main_thread_failed_do_not_count),
		cmocka_unit_test(others_that_ask_after_the_main_thread_went_on_count),
		cmocka_unit_test(others_that_go_on_without_the_main_thread_count),
		cmocka_unit_test(sizes_before_an_event_are_known),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
