/* SPDX-License-Identifier: MIT */
/*
 * A flight recorder's trace in the analyzer: recordings of real programs, written once more with the first part
 * dropped at many places. Every figure of the whole job is that of the whole recording.
 */
#include <glob.h>
#include <stdio.h>

#include "tests/unit/tracefmt_stream.h"

#include "analyzer/command.h"
#include "analyzer/ledger/books_inside.h"
#include "analyzer/replay/replay.h"

#define GOLDENS "tests/golden/v1/*.vtr"
#define PLACES 12 /* at which each is cut */

static const struct replay_options quiet = { .quiet = true };

static void define(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	assert_int_equal(tfmt_writer_definition(context, type, id, payload, len), 0);
}

/* Drop all that lies before the latest checkpoint. */
static int drop(struct tfmt_writer *w, const char *path, int fd)
{
	char next[600];
	int other, done;

	snprintf(next, sizeof(next), "%s.new", path);
	other = stream_create(next);
	assert_int_equal(tfmt_writer_drop_begin(w, other, 0, 0), 0);
	while (!(done = tfmt_writer_drop_step(w, 4096)))
		;
	assert_int_equal(done, 1);
	assert_int_equal(rename(next, path), 0);
	tfmt_writer_drop_commit(w);
	close(fd);
	return other;
}

/* Write the golden trace once more, as a recorder would that drops what comes before its nth event. */
static void keep(const char *golden, const char *path, uint64_t nth)
{
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	struct tfmt_reader *r;
	struct tfmt_header h;
	struct tfmt_writer *w;
	struct tfmt_event ev;
	uint64_t nr = 0;
	int fd = stream_create(path), got;

	assert_int_equal(tfmt_reader_open(&r, golden, NULL), 0);
	h = *tfmt_reader_header(r);
	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	assert_int_equal(tfmt_writer_keep(w), 0);
	tfmt_reader_hear(r, define, w);
	while ((got = tfmt_reader_next(r, &ev)) > 0) {
		if (nr++ == nth) {
			assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
			assert_int_equal(tfmt_writer_checkpoint(w, 0), 0);
		}
		if (tfmt_writer_event(w, &ev) > 0)
			assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
	}
	assert_int_equal(got, 0);
	assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
	if (tfmt_writer_drop_bytes(w, 0, 0))
		fd = drop(w, path, fd);
	status.stop = TFMT_STOP_NONE;
	assert_int_equal(tfmt_writer_end(w, &status), 0);
	tfmt_writer_close(w);
	tfmt_reader_close(r);
	close(fd);
}

#define SAME(a, b, field) \
	do { \
		if ((a)->field != (b)->field) \
			fail_msg("%s cut before event %llu: " #field " is %llu, not %llu", what, nth, \
				 (unsigned long long)(a)->field, (unsigned long long)(b)->field); \
	} while (0)

static void same_device(const struct device_ledger *a, const struct device_ledger *b, const char *what,
			unsigned long long nth)
{
	SAME(a, b, books.present);
	SAME(a, b, books.tensor_allocs);
	SAME(a, b, books.tensor_frees);
	SAME(a, b, books.tensor_ooms);
	SAME(a, b, books.allocated_bytes);
	SAME(a, b, books.allocated_peak_bytes);
	SAME(a, b, books.requested_bytes);
	SAME(a, b, books.requested_peak_bytes);
	SAME(a, b, books.has_unshaped);
	SAME(a, b, books.oom_asked_bytes);
	SAME(a, b, books.reserved_bytes);
	SAME(a, b, books.reserved_peak_bytes);
	SAME(a, b, books.allocated_at_reserved_peak_bytes);
	SAME(a, b, books.reported);
	SAME(a, b, books.driver_allocs);
	SAME(a, b, books.driver_frees);
	SAME(a, b, books.driver_refusals);
	SAME(a, b, books.driver_bytes);
	SAME(a, b, books.driver_peak_bytes);
	SAME(a, b, books.refused_bytes);
	SAME(a, b, books.allocated_at_driver_peak_bytes);
	SAME(a, b, residual.figures.nr_samples);
	SAME(a, b, residual.figures.peak);
	SAME(a, b, residual.peak_context);
	SAME(a, b, residual.peak_code);
	SAME(a, b, residual.modelled_context);
	SAME(a, b, residual.modelled_code);
	for (unsigned i = 0; i < NR_MARKS; i++) {
		SAME(a, b, books.moment[i].reached);
		SAME(a, b, books.moment[i].time_ns);
		SAME(a, b, books.moment[i].allocated_bytes);
		SAME(a, b, books.moment[i].driver_bytes);
	}
}

static int by_identity(const void *va, const void *vb)
{
	return memcmp(va, vb, offsetof(struct group, shape_bytes));
}

/* What is live at the end, by all that makes a group. */
static uint32_t live_groups(const struct books *b, struct group *out)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < books_nr_groups(b); i++) {
		const struct group *g = books_group(b, i);

		if (g->live.blocks)
			out[nr++] = *g;
	}
	qsort(out, nr, sizeof(*out), by_identity);
	return nr;
}

static void same_live(const struct books *a, const struct books *b, const char *what, unsigned long long nth)
{
	struct group *x = calloc(books_nr_groups(a) + 1, sizeof(*x)), *y = calloc(books_nr_groups(b) + 1, sizeof(*y));
	uint32_t nr = live_groups(a, x);

	if (nr != live_groups(b, y))
		fail_msg("%s cut before event %llu: %u groups are live at the end", what, nth, nr);
	for (uint32_t i = 0; i < nr; i++) {
		SAME(&x[i], &y[i], python_stack);
		SAME(&x[i], &y[i], native_stack);
		SAME(&x[i], &y[i], shape);
		SAME(&x[i], &y[i], phase);
		SAME(&x[i], &y[i], live.bytes);
		SAME(&x[i], &y[i], live.blocks);
	}
	free(x);
	free(y);
}

/* Who held memory at a peak adds up to it, whether they have names or not. */
static void adds_up(const struct books *b, unsigned device, const char *what, unsigned long long nth)
{
	const struct device_books *d = books_device(b, device);
	uint64_t tensors = 0, driver = 0, oom = 0;

	for (uint32_t i = 0; i < books_nr_groups(b); i++) {
		const struct group *g = books_group(b, i);

		if (g->device != device || !group_is_device_memory(g))
			continue;
		tensors += g->tensor ? group_figures_at(g, MARK_TENSOR_PEAK).bytes : 0;
		oom += g->tensor ? group_figures_at(g, MARK_OOM).bytes : 0;
		driver += g->tensor ? 0 : group_figures_at(g, MARK_DRIVER_PEAK).bytes;
	}
	if (tensors != d->allocated_peak_bytes || driver != d->driver_peak_bytes ||
	    oom != d->moment[MARK_OOM].allocated_bytes)
		fail_msg("%s cut before event %llu: the holders do not add up", what, nth);
}

static void same_books(const struct replay *whole, const struct replay *kept, const char *what, unsigned long long nth)
{
	const struct books *a = kept->process[0].books, *b = whole->process[0].books;

	SAME(kept, whole, nr_events);
	SAME(kept, whole, duration_ns);
	SAME(a, b, host.pinned_bytes);
	SAME(a, b, host.pinned_peak_bytes);
	SAME(a, b, host.managed_bytes);
	SAME(a, b, host.managed_peak_bytes);
	SAME(a, b, unmatched_frees);
	SAME(a, b, communicators.nr_rows);
	for (unsigned i = 0; i < TFMT_NR_DEVICES; i++) {
		same_device(&a->device[i], &b->device[i], what, nth);
		adds_up(a, i, what, nth);
	}
	same_live(a, b, what, nth);
}

static bool is_whole(const struct replay *m)
{
	return m->complete && m->process[0].summary->sealed && !m->process[0].books->teardown_events;
}

static void check(const char *golden)
{
	const char *path = strdup(stream_path("kept.vtr"));
	struct replay whole = REPLAY_INIT;

	assert_int_equal(replay_load(&whole, golden, &quiet), 0);
	for (uint64_t i = 1; i < PLACES && is_whole(&whole); i++) {
		uint64_t nth = whole.nr_events * i / PLACES;
		struct replay kept = REPLAY_INIT;

		if (!nth)
			continue;
		keep(golden, path, nth);
		assert_int_equal(replay_load(&kept, path, &quiet), 0);
		assert_true(kept.complete);
		assert_int_equal(kept.process[0].summary->dropped_events, nth);
		same_books(&whole, &kept, golden, nth);
		replay_release(&kept);
	}
	replay_release(&whole);
	unlink(path);
	free((char *)path);
}

/*
 * Damage leaves other figures. What is imported no flight recorder writes; one of the places here would part a segment from
 * the tensor that it was taken for, whose figure a checkpoint does not carry on.
 */
static bool is_comparable(const char *golden)
{
	return !strstr(golden, "damaged") && !strstr(golden, "cut") && !strstr(golden, "imported");
}

static void every_figure_of_a_kept_recording_is_the_whole_ones(void **state)
{
	glob_t found;

	(void)state;
	assert_int_equal(glob(GOLDENS, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (is_comparable(found.gl_pathv[i]))
			check(found.gl_pathv[i]);
	globfree(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_figure_of_a_kept_recording_is_the_whole_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
