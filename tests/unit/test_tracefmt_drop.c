/* SPDX-License-Identifier: MIT */
/* A flight recorder's trace: damage in its first frames, facts that change for ever, steps, a disk that is full. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/tracefmt_flight.h"

#include "tracefmt/frame.h"

#define NR_EVENTS 20000
#define KEPT_BYTES 60000
#define CHECKPOINT_BYTES 10000

static struct stream stream;

static void put_info(struct tfmt_writer *w, uint32_t id, const char *key, unsigned number)
{
	uint8_t payload[64], *p = payload;
	char value[16];

	snprintf(value, sizeof(value), "%u", number);
	p = tfmt_put_string(p, key, strlen(key));
	p = tfmt_put_string(p, value, strlen(value));
	assert_int_equal(tfmt_writer_definition(w, TFMT_DEF_INFO, id, payload, (size_t)(p - payload)), 0);
}

/* With a fact that has a new value every 100 events, and a note every 5000. */
static void record(struct flight *f, unsigned nr)
{
	struct tfmt_event ev, want;
	uint32_t id = 0;

	for (unsigned i = 0; i < nr; i++) {
		int full;

		if (i % 100 == 0)
			put_info(f->w, id++, "count", i);
		if (i % 5000 == 0)
			put_info(f->w, id++, "note", i);
		stream_next(&stream, &ev, &want);
		full = tfmt_writer_event(f->w, &ev);
		assert_true(full >= 0);
		if (!full && stream_below(&stream, 100))
			continue;
		assert_int_equal(tfmt_writer_flush(f->w, NULL, 0), 0);
		flight_tend(f, CHECKPOINT_BYTES, KEPT_BYTES);
	}
}

static void record_kept(struct flight *f)
{
	stream_init(&stream, 7, 6, false);
	flight_start(f, 6);
	record(f, NR_EVENTS);
	flight_end(f);
	assert_true(f->nr_drops > 2);
}

static struct tfmt_summary read_through(const char *path)
{
	struct tfmt_summary s;
	struct tfmt_reader *r;
	struct tfmt_event ev;

	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	while (tfmt_reader_next(r, &ev))
		;
	s = *tfmt_reader_summary(r);
	tfmt_reader_close(r);
	return s;
}

/* Whatever frame before the first events cannot be read: what was dropped on purpose is not lost. */
static void test_damage_in_the_first_frames(void **state)
{
	struct tfmt_summary intact, hurt;
	struct tfmt_frame_core core;
	size_t bytes, at, header;
	struct flight f;
	uint8_t *trace;
	unsigned nr = 0;

	(void)state;
	record_kept(&f);
	intact = read_through(f.path);
	assert_true(intact.dropped_events > 0);
	assert_int_equal(intact.nr_damaged, 0);
	trace = stream_load(f.path, &bytes);
	header = at = (size_t)trace[12] | (size_t)trace[13] << 8;
	while (tfmt_frame_check(trace + at, bytes - at, &core) == TFMT_FRAME_GOOD && core.type != TFMT_TYPE_EVENTS) {
		trace[at + 24] ^= 1;
		stream_store(f.path, trace, bytes);
		trace[at + 24] ^= 1;
		hurt = read_through(f.path);
		assert_int_equal(hurt.nr_damaged, 1);
		assert_int_equal(hurt.lost_events, intact.lost_events);
		assert_int_equal(hurt.dropped_events, intact.dropped_events);
		assert_int_equal(hurt.nr_events, intact.nr_events);
		at += core.header_bytes + core.stored_bytes;
		nr++;
	}
	assert_true(at > header && nr >= 3); /* definitions, what is live, figures */
	free(trace);
	flight_forget(&f);
}

/* Of what came before the kept part the latest is all that is asked for; notes are all there. */
static void test_old_facts_are_left_out(void **state)
{
	const char *key, *value, *latest = NULL;
	unsigned nr_old = 0, nr_notes = 0;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	struct flight f;

	(void)state;
	record_kept(&f);
	assert_int_equal(tfmt_reader_open(&r, f.path, NULL), 0);
	while (tfmt_reader_next(r, &ev))
		;
	for (uint32_t i = 0; tfmt_reader_info(r, i, &key, &value); i++) {
		bool is_note = !strcmp(key, "note");

		nr_notes += is_note;
		nr_old += !is_note && strtoull(value, NULL, 10) < tfmt_reader_summary(r)->dropped_events;
		latest = is_note ? latest : value;
	}
	assert_true(tfmt_reader_summary(r)->dropped_events > 1000);
	assert_true(nr_old <= 1);
	assert_int_equal(nr_notes, NR_EVENTS / 5000);
	assert_int_equal(strtoull(latest, NULL, 10), NR_EVENTS - 100);
	tfmt_reader_close(r);
	flight_forget(&f);
}

/* Steps that turn out to be parts of one: what lies before it can be dropped by its number. */
static void test_steps_that_are_fewer(void **state)
{
	struct tfmt_event ev, want;
	uint64_t latest, step, bytes;
	struct flight f;

	(void)state;
	stream_init(&stream, 7, 6, false);
	flight_start(&f, 6);
	for (unsigned i = 0; i < 10; i++) {
		for (unsigned k = 0; k < 200; k++) {
			stream_next(&stream, &ev, &want);
			assert_true(tfmt_writer_event(f.w, &ev) >= 0);
		}
		assert_int_equal(tfmt_writer_flush(f.w, NULL, 0), 0);
		assert_int_equal(tfmt_writer_checkpoint(f.w, 100 + i), 0);
	}
	latest = tfmt_writer_drop_bytes(f.w, 0, 0);
	assert_true(tfmt_writer_drop_bytes(f.w, UINT64_MAX, 3) > latest);
	tfmt_writer_limit_steps(f.w, 2);
	assert_int_equal(tfmt_writer_drop_bytes(f.w, UINT64_MAX, 3), latest);
	tfmt_writer_since_checkpoint(f.w, &step, &bytes);
	assert_int_equal(step, 2);
	flight_end(&f);
	flight_forget(&f);
}

/* ---- a disk that is full --------------------------------------------------------------------- */

static void limit_file(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static unsigned nr_asked;

static bool give_up_next(void *context)
{
	struct flight *f = context;

	nr_asked++;
	if (f->other_fd < 0)
		return false;
	tfmt_writer_drop_abort(f->w);
	close(f->other_fd);
	f->other_fd = -1;
	limit_file(RLIM_INFINITY);
	return true;
}

/* The trace's next write has 100 bytes of room left, while the next file is (not) being written. */
static int write_when_full(struct flight *f, bool is_dropping)
{
	int err = 0;

	signal(SIGXFSZ, SIG_IGN);
	stream_init(&stream, 7, 6, false);
	flight_start(f, 6);
	nr_asked = 0;
	tfmt_writer_on_full(f->w, give_up_next, f);
	record(f, 3000);
	assert_true(f->other_fd < 0);
	assert_int_equal(tfmt_writer_flush(f->w, NULL, 0), 0);
	if (is_dropping) {
		f->other_fd = stream_create(f->other);
		assert_int_equal(tfmt_writer_drop_begin(f->w, f->other_fd, 0, 0), 0);
	}
	limit_file(tfmt_writer_bytes(f->w) + 100);
	for (unsigned i = 0; i < 500; i++) {
		struct tfmt_event ev, want;

		stream_next(&stream, &ev, &want);
		assert_true(tfmt_writer_event(f->w, &ev) >= 0);
	}
	err = tfmt_writer_flush(f->w, NULL, 0);
	limit_file(RLIM_INFINITY);
	return err;
}

static void test_full_while_dropping(void **state)
{
	struct tfmt_summary s;
	struct flight f;

	(void)state;
	assert_int_equal(write_when_full(&f, true), 0);
	assert_int_equal(nr_asked, 1);
	flight_end(&f);
	s = read_through(f.path);
	assert_int_equal(s.nr_events, 3500);
	assert_int_equal(s.nr_damaged, 0);
	flight_forget(&f);
}

static void test_full(void **state)
{
	struct flight f;

	(void)state;
	assert_int_equal(write_when_full(&f, false), TFMT_E_IO);
	assert_int_equal(nr_asked, 1);
	assert_int_equal(tfmt_writer_errno(f.w), EFBIG);
	tfmt_writer_close(f.w);
	close(f.fd);
	assert_int_equal(read_through(f.path).nr_events, 3000);
	flight_forget(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damage_in_the_first_frames),
		cmocka_unit_test(test_old_facts_are_left_out),
		cmocka_unit_test(test_steps_that_are_fewer),
		cmocka_unit_test(test_full_while_dropping),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
