/* SPDX-License-Identifier: MIT */
/* Runs of a repeated job: finding them in a recording, and the range of their peaks. */
#include "synthetic.h"

#include "analyzer/recording/generation.h"
#include "analyzer/recording/job.h"
#include "analyzer/recording/recording.h"
#include "analyzer/gate/repeat.h"

#define GiB (1ull << 30)

static const struct replay_options quiet = { .quiet = true };

/* A run of one process a rank (rank NULL: one without), each with one block of so many GiB. */
static void write_process(const char *path, uint32_t pid, const char *rank, uint64_t gib)
{
	struct tfmt_header header = synthetic_header(pid);
	struct synthetic s;

	header.start_mono_ns += pid;
	synthetic_open(&s, path, &header);
	if (rank)
		synthetic_info(&s, "rank", rank);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x1000, gib * GiB, (gib + 1) * GiB);
	synthetic_close(&s, 0);
}

static void write_job(const char *folder, const char *job)
{
	char path[128];
	FILE *f;

	mkdir(folder, 0700);
	snprintf(path, sizeof(path), "%s/job", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%s\n", job);
	fclose(f);
}

static void ids_name_the_run(void **state)
{
	char id[JOB_ID_MAX], longest[JOB_ID_MAX];
	unsigned run, of;
	size_t len;

	(void)state;
	job_id_of_run(id, "slurm.77", 2, 3);
	assert_string_equal(id, "slurm.77.run2of3");
	assert_true(job_run(id, &len, &run, &of));
	assert_int_equal(len, strlen("slurm.77"));
	assert_int_equal(run, 2);
	assert_int_equal(of, 3);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	job_id_of_run(id, longest, 12, 100);
	assert_int_equal(strlen(id), JOB_ID_MAX - 1);
	assert_true(job_run(id, &len, &run, &of));
	assert_int_equal(run, 12);
	assert_false(job_run("77", &len, &run, &of));
	assert_false(job_run("77.run4of3", &len, &run, &of));
	assert_false(job_run("77.run0of3", &len, &run, &of));
	assert_false(job_run("77.run1of3x", &len, &run, &of));
	assert_false(job_run("77.r2", &len, &run, &of));
}

/* An older job's recording, then three runs of ours beside it: found although they lie in g2, g3, g4. */
static void write_recording(void)
{
	write_job("old.vtr", "older");
	write_process("old.vtr/host.1.1.vtr", 1, NULL, 1);
	write_job("old.vtr/g2", "ours.run1of4");
	write_process("old.vtr/g2/host.2.1.vtr", 2, "0", 3);
	write_process("old.vtr/g2/host.3.1.vtr", 3, "1", 4);
	write_job("old.vtr/g3", "ours.run2of4");
	write_process("old.vtr/g3/host.5.1.vtr", 5, "0", 3);
	write_process("old.vtr/g3/host.4.1.vtr", 4, "1", 7);
	write_job("old.vtr/g4", "ours.run3of4");
	write_process("old.vtr/g4/host.6.1.vtr", 6, "0", 3);
	write_process("old.vtr/g4/host.7.1.vtr", 7, "1", 5);
}

static void a_recording_means_its_largest_run(void **state)
{
	struct recording r;
	char why[256];

	(void)state;
	write_recording();
	assert_int_equal(recording_open(&r, "old.vtr", why, sizeof(why)), 0);
	assert_int_equal(r.nr_runs, 3);
	assert_int_equal(r.runs_wanted, 4);
	assert_string_equal(r.run[0], "old.vtr/g2");
	assert_string_equal(r.run[2], "old.vtr/g4");
	assert_string_equal(r.folder, "old.vtr/g4"); /* nobody has said yet which is the largest */
	assert_int_equal(r.run_shown, 3);
	recording_release(&r);
	generation_set_largest_run("old.vtr/g4", 2);
	assert_int_equal(recording_open(&r, "old.vtr", why, sizeof(why)), 0);
	assert_string_equal(r.folder, "old.vtr/g3");
	assert_int_equal(r.run_shown, 2);
	assert_int_equal(r.nr_traces, 2);
	recording_release(&r);
	assert_int_equal(recording_open(&r, "old.vtr/g4", why, sizeof(why)), 0);
	assert_int_equal(r.nr_runs, 1); /* one run alone */
	recording_release(&r);
	assert_int_equal(recording_open(&r, "old.vtr/g1/", why, sizeof(why)), 0);
	assert_string_equal(r.trace[0], "old.vtr/host.1.1.vtr");
	assert_int_equal(r.nr_runs, 0);
	recording_release(&r);
}

static void what_says_nonsense_is_ignored(void **state)
{
	struct recording r;
	char why[256];

	(void)state;
	write_recording();
	generation_set_largest_run("old.vtr/g4", 77);
	assert_int_equal(recording_open(&r, "old.vtr", why, sizeof(why)), 0);
	assert_string_equal(r.folder, "old.vtr/g4");
	recording_release(&r);
	write_job("old.vtr/g5", "newer"); /* another job's: the newest generation counts again */
	write_process("old.vtr/g5/host.8.1.vtr", 8, NULL, 2);
	assert_int_equal(recording_open(&r, "old.vtr", why, sizeof(why)), 0);
	assert_string_equal(r.folder, "old.vtr/g5");
	assert_int_equal(r.nr_runs, 0);
	recording_release(&r);
	assert_int_equal(recording_open(&r, "nowhere.vtr/g1", why, sizeof(why)), -1);
	recording_release(&r);
}

static void peaks_have_a_range(void **state)
{
	struct repeat all = REPEAT_INIT;
	char text[REPEAT_TEXT_MAX];
	struct recording r;
	char why[256];

	(void)state;
	write_recording();
	assert_int_equal(recording_open(&r, "old.vtr", why, sizeof(why)), 0);
	repeat_load(&all, &r);
	assert_int_equal(all.nr_runs, 3);
	assert_int_equal(all.largest, 2);
	assert_int_equal(all.nr_devices, 2);
	assert_int_equal(all.device[0].rank, 0);
	assert_true(repeat_is_stable(&all, &all.device[0]));
	assert_string_equal(repeat_text(text, &all, &all.device[0]),
			    "3.00 GiB allocated, 4.00 GiB reserved in 3 of 3 runs");
	assert_false(repeat_is_stable(&all, &all.device[1]));
	assert_int_equal(all.device[1].allocated.min, 4 * GiB);
	assert_int_equal(all.device[1].reserved.max, 8 * GiB);
	assert_string_equal(repeat_text(text, &all, &all.device[1]),
			    "4.00 to 7.00 GiB allocated, 5.00 to 8.00 GiB reserved over 3 runs");
	assert_string_equal(repeat_device_name(text, sizeof(text), &all, &all.device[1]), "rank 1, GPU 0");
	repeat_release(&all);
	recording_release(&r);
}

/* Processes without ranks match in the order in which they began; a device that a run did not use counts 0. */
static void processes_match_by_their_order(void **state)
{
	static const char *const runs[] = { "one.vtr", "two.vtr", "three.vtr" };
	struct repeat all = REPEAT_INIT;

	(void)state;
	write_job(runs[0], "a");
	write_process("one.vtr/host.10.1.vtr", 10, NULL, 1);
	write_process("one.vtr/host.9.1.vtr", 9, NULL, 2);
	write_job(runs[1], "b");
	write_process("two.vtr/host.100.1.vtr", 100, NULL, 2);
	write_process("two.vtr/host.101.1.vtr", 101, NULL, 1);
	write_process("two.vtr/host.102.1.vtr", 102, NULL, 9);
	write_job(runs[2], "c");
	write_process("three.vtr/host.7.1.vtr", 7, NULL, 2);
	write_process("three.vtr/host.8.1.vtr", 8, NULL, 1);
	for (unsigned i = 0; i < 3; i++) {
		struct replay m = REPLAY_INIT;

		assert_int_equal(replay_load(&m, runs[i], &quiet), 0);
		repeat_add(&all, &m, i + 1);
		replay_release(&m);
	}
	assert_int_equal(all.nr_devices, 3);
	assert_true(repeat_is_stable(&all, &all.device[0]));
	assert_int_equal(all.device[0].allocated.max, 2 * GiB);
	assert_true(repeat_is_stable(&all, &all.device[1]));
	assert_false(repeat_is_stable(&all, &all.device[2]));
	assert_int_equal(all.device[2].nr_runs, 1);
	assert_int_equal(all.device[2].allocated.min, 0);
	assert_int_equal(all.device[2].allocated.max, 9 * GiB);
	assert_int_equal(all.largest, 2);
	repeat_release(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_name_the_run),
		cmocka_unit_test_setup_teardown(a_recording_means_its_largest_run, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(what_says_nonsense_is_ignored, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(peaks_have_a_range, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(processes_match_by_their_order, synthetic_enter, synthetic_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
