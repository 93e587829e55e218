/* SPDX-License-Identifier: MIT */
/*
 * Several traces as one recording: clocks, identities, ends, traces that cannot be read; and the timeline
 * over it.
 */
#include "synthetic.h"

#include "analyzer/holders/timeline.h"
#include "analyzer/replay/replay.h"

#define MiB (1ull << 20)
#define SECOND 1000000000ull

static const struct replay_options quiet = { .quiet = true };

static void write_rank(const char *path, struct tfmt_header header, const char *rank, int status)
{
	struct synthetic s;

	synthetic_open(&s, path, &header);
	synthetic_info(&s, "rank", rank);
	synthetic_info(&s, "torch", "2.11.0");
	synthetic_info(&s, "script", "/x/train.py");
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x1000, header.pid * MiB, 20 * MiB);
	synthetic_close(&s, status);
}

static void processes_share_one_clock(void **state)
{
	struct tfmt_header one = synthetic_header(1), two = synthetic_header(2), far = synthetic_header(3);
	struct replay m = REPLAY_INIT;

	(void)state;
	mkdir("job.vtr", 0700);
	one.start_mono_ns += 5 * SECOND;
	far.boot_id[0] = 99; /* another machine: only the time of day is common */
	far.start_mono_ns = 77;
	far.start_real_ns = one.start_real_ns + 2 * SECOND;
	write_rank("job.vtr/a.1.1.vtr", one, "0", 0);
	write_rank("job.vtr/a.2.1.vtr", two, "1", 3);
	write_rank("job.vtr/b.3.1.vtr", far, "2", 256);
	assert_int_equal(replay_load(&m, "job.vtr", &quiet), 0);
	assert_int_equal(m.nr_processes, 3);
	assert_int_equal(m.nr_devices, 3);
	assert_int_equal(m.process[0].start_ns, 5 * SECOND);
	assert_int_equal(m.process[1].start_ns, 0);
	assert_int_equal(m.process[2].start_ns, 7 * SECOND);
	assert_true(m.process[2].clock_estimated);
	assert_false(m.process[1].clock_estimated);
	assert_int_equal(m.process[1].rank, 1);
	assert_int_equal(m.process[1].local_rank, -1);
	assert_int_equal(m.process[1].summary->exit_status, 3);
	assert_string_equal(m.process[0].torch, "2.11.0");
	assert_string_equal(m.process[0].program, "/x/train.py");
	assert_int_equal(m.end, REPLAY_END_UNKNOWN); /* the third was left open on another machine */
	assert_int_equal(m.duration_ns, 7 * SECOND);
	assert_int_equal(m.nr_events, 3);
	replay_release(&m);
}

static void an_unreadable_trace_does_not_hide_the_others(void **state)
{
	struct replay m = REPLAY_INIT;
	FILE *f;

	(void)state;
	mkdir("mixed.vtr", 0700);
	write_rank("mixed.vtr/a.1.1.vtr", synthetic_header(1), "0", 0);
	f = fopen("mixed.vtr/b.1.1.vtr", "w");
	fputs("this is not a trace", f);
	fclose(f);
	assert_int_equal(replay_load(&m, "mixed.vtr", &quiet), 0);
	assert_int_equal(m.nr_processes, 1);
	assert_int_equal(m.nr_unreadable, 1);
	assert_false(m.complete);
	replay_release(&m);
	assert_int_equal(replay_load(&m, "mixed.vtr/b.1.1.vtr", &quiet), 2);
	replay_release(&m);
}

/* Cut at every byte: never a crash, never more than was written, complete only if whole. */
static void a_trace_cut_anywhere_loads_or_is_refused(void **state)
{
	struct stat whole;

	(void)state;
	write_rank("cut.vtr", synthetic_header(1), "0", 0);
	assert_int_equal(stat("cut.vtr", &whole), 0);
	for (off_t size = whole.st_size - 1; size >= 0; size--) {
		struct replay m = REPLAY_INIT;

		assert_int_equal(truncate("cut.vtr", size), 0);
		if (!replay_load(&m, "cut.vtr", &quiet)) {
			assert_true(m.nr_events <= 1);
			assert_true(!m.nr_devices || m.device[0].books->allocated_peak_bytes <= MiB);
		}
		replay_release(&m);
	}
}

static void the_timeline_keeps_short_peaks(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	struct series_values values[10];
	struct series t;
	struct replay_options options = { .quiet = true, .observe = timeline_observe, .ctx = &t };
	struct replay m = REPLAY_INIT;
	struct synthetic s;

	(void)state;
	synthetic_open(&s, "long.vtr", &header);
	/* 100 s with a spike of two events after 42 s: far more time than steps. */
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x1000, 1 * MiB, 20 * MiB);
	s.time_ns = header.start_mono_ns + 42 * SECOND;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x2000, 9 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x2000, 0, 20 * MiB);
	s.time_ns = header.start_mono_ns + 100 * SECOND;
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x1000, 0, 20 * MiB);
	synthetic_close(&s, 0);

	series_init(&t);
	assert_int_equal(replay_load(&m, "long.vtr", &options), 0);
	assert_int_equal(t.nr_tracks, 1);
	assert_true(t.step_ns * SERIES_STEPS > 100 * SECOND);
	series_resample(&t, &t.track[0], m.duration_ns, values, 10);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(values[i].value[TIMELINE_ALLOCATED], (i == 4 ? 10 : 1) * MiB);
		assert_int_equal(values[i].value[TIMELINE_RESERVED], 20 * MiB);
	}
	series_resample(&t, &t.track[0], m.duration_ns, values, 1);
	assert_int_equal(values[0].value[TIMELINE_ALLOCATED], 10 * MiB);
	series_release(&t);
	replay_release(&m);
}

/* Hours of what belongs to no device are no more work than what was on one. */
static void the_timeline_ends_long_before_the_recording(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	struct series_values values[3];
	struct series t;
	struct replay_options options = { .quiet = true, .observe = timeline_observe, .ctx = &t };
	struct replay m = REPLAY_INIT;
	struct synthetic s;

	(void)state;
	synthetic_open(&s, "idle.vtr", &header);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x1000, 1 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x2000, 2 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x1000, 0, 20 * MiB);
	s.time_ns = header.start_mono_ns + 1000000 * SECOND;
	synthetic_event(&s, TFMT_PHASE_BEGIN, 255, 2, 0, 0);
	synthetic_close(&s, 0);

	series_init(&t);
	assert_int_equal(replay_load(&m, "idle.vtr", &options), 0);
	assert_int_equal(m.duration_ns, 1000000 * SECOND);
	series_resample(&t, &t.track[0], m.duration_ns, values, 3);
	assert_int_equal(values[0].value[TIMELINE_ALLOCATED], 3 * MiB);
	assert_int_equal(values[1].value[TIMELINE_ALLOCATED], 2 * MiB);
	assert_int_equal(values[2].value[TIMELINE_ALLOCATED], 2 * MiB);
	series_release(&t);
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_share_one_clock),
		cmocka_unit_test(an_unreadable_trace_does_not_hide_the_others),
		cmocka_unit_test(a_trace_cut_anywhere_loads_or_is_refused),
		cmocka_unit_test(the_timeline_keeps_short_peaks),
		cmocka_unit_test(the_timeline_ends_long_before_the_recording),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
