/* SPDX-License-Identifier: MIT */
/* A trace that is followed while it is written, on two devices: maxima between looks and in intervals, steps and growth. */
#include "synthetic.h"

#include <math.h>

#include "analyzer/live/livetrace.h"

#define MIB (1ull << 20)
#define CAPACITY (1024 * MIB)
#define ACTIVATION (8 * MIB)
#define KEPT MIB
#define OTHERS (3 * MIB) /* the second device's, in each step */
#define EVENTS_PER_STEP 7
#define TRACE "a.1.1.vtr"

static void hold(int fd)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
}

static struct tfmt_header begin(struct synthetic *s)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(s, TRACE, &header);
	hold(s->fd);
	synthetic_device(s, 0, CAPACITY);
	synthetic_device(s, 1, CAPACITY);
	synthetic_flush(s);
	return header;
}

/* An activation lives from forward into backward, a block stays; the second device has something in between. */
static void write_step(struct synthetic *s, unsigned n)
{
	uint64_t address = 0x1000000000ull + 0x10000000ull * n;

	s->flags = TFMT_FLAG_FORWARD;
	synthetic_event(s, TFMT_TENSOR_ALLOC, 0, address, ACTIVATION, 0);
	synthetic_event(s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	s->flags = TFMT_FLAG_BACKWARD;
	synthetic_event(s, TFMT_TENSOR_FREE, 0, address, 0, 0);
	synthetic_event(s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	s->flags = 0;
	synthetic_event(s, TFMT_TENSOR_ALLOC, 0, address, KEPT, 0);
	synthetic_event(s, TFMT_TENSOR_ALLOC, 1, address + 16 * MIB, OTHERS, 0);
	synthetic_event(s, TFMT_TENSOR_FREE, 1, address + 16 * MIB, 0, 0);
	synthetic_flush(s);
}

static struct livetrace *follow(const struct tfmt_header *header, uint64_t interval_ns)
{
	struct livetrace *t = livetrace_open(TRACE, header, interval_ns);

	assert_non_null(t);
	livetrace_look(t);
	return t;
}

static void maxima_are_those_since_the_last_look(void **state)
{
	struct synthetic s;
	struct tfmt_header header = begin(&s);
	struct livetrace *t;

	(void)state;
	write_step(&s, 0);
	t = follow(&header, 0);
	for (unsigned n = 1; n < 5; n++) {
		write_step(&s, n);
		livetrace_look(t);
		assert_int_equal(t->device[0]->now.allocated, (n + 1) * KEPT);
		assert_int_equal(t->device[0]->since.allocated, n * KEPT + ACTIVATION);
		assert_int_equal(t->device[1]->now.allocated, 0);
		assert_int_equal(t->device[1]->since.allocated, OTHERS);
		livetrace_look(t); /* nothing was written since */
		assert_int_equal(t->device[0]->since.allocated, (n + 1) * KEPT);
		assert_int_equal(t->device[1]->since.allocated, 0);
	}
	assert_null(t->device[2]);
	assert_false(livetrace_process(t)->is_over);
	synthetic_close(&s, 0);
	livetrace_look(t);
	assert_true(livetrace_process(t)->is_over);
	livetrace_close(t);
}

static void intervals_have_their_maxima(void **state)
{
	const uint64_t interval_ns = EVENTS_PER_STEP * SYNTHETIC_STEP; /* a step each */
	struct synthetic s;
	struct tfmt_header header = begin(&s);
	struct livedevice *d;
	struct livetrace *t;

	(void)state;
	for (unsigned n = 0; n < 4; n++)
		write_step(&s, n);
	t = follow(&header, interval_ns);
	for (unsigned n = 4; n < 8; n++)
		write_step(&s, n);
	livetrace_look(t);
	d = t->device[0];
	assert_int_equal(d->nr_intervals, 8);
	for (unsigned n = 0; n < 8; n++)
		assert_int_equal(d->interval[n].allocated, n * KEPT + ACTIVATION);
	livedevice_forget(d, d->first_interval + 6);
	assert_int_equal(d->nr_intervals, 2);
	assert_int_equal(d->interval[0].allocated, 6 * KEPT + ACTIVATION);
	livedevice_forget(d, d->first_interval + 5); /* further than there are any */
	assert_int_equal(d->nr_intervals, 0);
	write_step(&s, 8); /* whose interval was told already: it counts with the next */
	livetrace_look(t);
	assert_true(d->nr_intervals > 0);
	assert_int_equal(d->interval[0].allocated, 8 * KEPT + ACTIVATION);
	synthetic_close(&s, 0);
	livetrace_close(t);
}

static const struct replay_device *device(const struct livetrace *t, uint32_t ordinal)
{
	for (size_t i = 0; i < t->replay.nr_devices; i++)
		if (t->replay.device[i].ordinal == ordinal)
			return &t->replay.device[i];
	return NULL;
}

static void steps_have_a_pace_and_each_device_its_growth(void **state)
{
	const unsigned nr_steps = 60;
	struct livesteps_growth growth;
	struct livesteps_pace pace;
	struct synthetic s;
	struct tfmt_header header = begin(&s);
	struct livetrace *t;

	(void)state;
	write_step(&s, 0);
	t = follow(&header, 0);
	livesteps_pace(&pace, &t->steps, &livetrace_process(t)->lives->steps, t->now_ns);
	assert_true(isnan(pace.per_second));
	livesteps_growth(&growth, device(t, 0), &t->device[0]->rise);
	assert_true(isnan(growth.bytes_per_step) && isnan(growth.oom_step));
	for (unsigned n = 1; n < nr_steps; n++) {
		write_step(&s, n);
		if (n % 7 == 0)
			livetrace_look(t);
	}
	synthetic_close(&s, 0);
	livetrace_look(t);
	livesteps_pace(&pace, &t->steps, &livetrace_process(t)->lives->steps, t->now_ns);
	assert_int_equal(pace.nr_steps, nr_steps);
	assert_true(fabs(pace.per_second * EVENTS_PER_STEP * SYNTHETIC_STEP / 1e9 - 1) < 0.01);

	livesteps_growth(&growth, device(t, 0), &t->device[0]->rise);
	assert_true(fabs(growth.bytes_per_step / (double)KEPT - 1) < 0.001);
	/* What fits: so many that stay, and an activation on top. */
	assert_true(fabs(growth.oom_step - (double)(CAPACITY - ACTIVATION) / (double)KEPT) < 3);
	assert_true(growth.oom_step_low <= growth.oom_step && growth.oom_step <= growth.oom_step_high);
	livesteps_growth(&growth, device(t, 1), &t->device[1]->rise);
	assert_true(growth.bytes_per_step == 0 && isnan(growth.oom_step));
	livetrace_close(t);
}

/* A loop that hangs has no pace any more: the longer nothing comes, the fewer steps a second. */
static void pace_falls_while_no_step_comes(void **state)
{
	struct livesteps_pace before, after;
	struct synthetic s;
	struct tfmt_header header = begin(&s);
	struct livetrace *t;

	(void)state;
	for (unsigned n = 0; n < 30; n++)
		write_step(&s, n);
	t = follow(&header, 0);
	livesteps_pace(&before, &t->steps, &livetrace_process(t)->lives->steps, livetrace_process(t)->last_ns);
	livesteps_pace(&after, &t->steps, &livetrace_process(t)->lives->steps,
		       livetrace_process(t)->last_ns + 100 * 1000000000ull);
	assert_int_equal(before.nr_steps, after.nr_steps);
	assert_true(before.per_second > 1000 && after.per_second < 1);
	synthetic_close(&s, 256);
	livetrace_close(t);
}

static void a_trace_that_is_taken_away_is_no_process(void **state)
{
	struct synthetic s;
	struct tfmt_header header = begin(&s);

	(void)state;
	synthetic_close(&s, 0);
	unlink(TRACE);
	assert_null(livetrace_open(TRACE, &header, 0));
}

/* The rise above the level at which a span began, of the latest spans. */
static void rise_is_of_each_span(void **state)
{
	struct livesteps_rise r = { 0 };
	struct livesteps s = { 0 };

	(void)state;
	livesteps_rise_note(&r, &s, 0, 10);
	livesteps_rise_note(&r, &s, 10, 30);
	livesteps_rise_note(&r, &s, 30, 20);
	assert_int_equal(r.peak_bytes - r.level_bytes, 30);
	for (uint64_t span = 1; span <= LIVESTEPS_SPANS; span++) {
		s.nr_marks = span;
		livesteps_rise_note(&r, &s, 100, 100 + span); /* it begins with what rises */
		assert_int_equal(r.peak_bytes - r.level_bytes, span);
	}
	assert_int_equal(r.before[1], 30);
	s.nr_marks++;
	livesteps_rise_note(&r, &s, 100, 0); /* the first span is forgotten */
	for (int i = 0; i < LIVESTEPS_SPANS; i++)
		assert_true(r.before[i] <= LIVESTEPS_SPANS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maxima_are_those_since_the_last_look),
		cmocka_unit_test(intervals_have_their_maxima),
		cmocka_unit_test(steps_have_a_pace_and_each_device_its_growth),
		cmocka_unit_test(pace_falls_while_no_step_comes),
		cmocka_unit_test(a_trace_that_is_taken_away_is_no_process),
		cmocka_unit_test(rise_is_of_each_span),
	};

	return cmocka_run_group_tests_name("a trace that is followed", tests, synthetic_enter, synthetic_leave);
}
