/* SPDX-License-Identifier: MIT */
/*
 * Recordings with checkpoints, and reading from a time on beside one who reads all. For tests of tfmt_reader_seek();
 * static functions, one includer per program.
 */
#ifndef TRACEFMT_SEEK_H
#define TRACEFMT_SEEK_H

#include "tests/unit/tracefmt_flight.h"

#define NR_EVENTS 15000
#define CHECKPOINT_BYTES 9000
#define NR_TIMES 12
#define NR_SHAPES 300
#define TOTALS_EVERY 16 /* comparing all of them takes longer than the rest */

static struct stream stream;

/* ---- a recording ----------------------------------------------------------------------------- */

static inline void record(struct flight *f, uint64_t keep)
{
	struct tfmt_event ev, want;

	for (unsigned i = 0; i < NR_EVENTS; i++) {
		int full;

		stream_next(&stream, &ev, &want);
		ev.flags &= (uint16_t)~TFMT_FLAG_TEARDOWN; /* after it there are no checkpoints */
		/* A clock is read before the event is published. */
		if (!stream_below(&stream, 20))
			ev.time_ns -= stream_below(&stream, 10000);
		if (i % 50 == 0) /* they are not all in one frame */
			flight_define_shape(f->w, i / 50, 1000 + i);
		full = tfmt_writer_event(f->w, &ev);
		assert_true(full >= 0);
		if (!full && stream_below(&stream, 300))
			continue;
		assert_int_equal(tfmt_writer_flush(f->w, NULL, (i / 50 + 1) * 16), 0); /* of a definition ring */
		flight_tend(f, CHECKPOINT_BYTES, keep);
	}
}

static inline void start(struct flight *f, uint64_t seed)
{
	stream_init(&stream, seed, seed % 2 ? 6 : 0, seed % 3 == 0);
	flight_start(f, seed % 2 ? 6 : 0);
}

static inline void record_whole(struct flight *f, uint64_t seed)
{
	start(f, seed);
	record(f, UINT64_MAX / 4);
	flight_end(f);
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* The next event that is not of a checkpoint. Damage is counted. */
static inline int next(struct tfmt_reader *r, struct tfmt_event *ev, unsigned *nr_before, unsigned *nr_damaged)
{
	int got;

	while ((got = tfmt_reader_next(r, ev)) != 0) {
		if (got > 0 && !ev->before)
			break;
		*nr_before += got > 0;
		*nr_damaged += got < 0;
	}
	return got;
}

static inline void check_shapes(struct tfmt_reader *all, struct tfmt_reader *part)
{
	struct tfmt_shape a, b;

	for (uint32_t id = 0; id < NR_SHAPES; id++) {
		assert_int_equal(tfmt_reader_shape(all, id, &a), tfmt_reader_shape(part, id, &b));
		assert_int_equal(a.bytes, b.bytes);
	}
}

static inline void check_totals(struct tfmt_reader *all, struct tfmt_reader *part)
{
	struct tfmt_totals a, b;
	bool known = tfmt_reader_totals(all, &a);

	assert_int_equal(tfmt_reader_totals(part, &b), known);
	assert_memory_equal(&a, &b, sizeof(a));
}

/* Go to a time, and read on beside one who reads all. Returns what tfmt_reader_seek() did. */
static inline int check_seek(const char *path, uint64_t time_ns)
{
	unsigned nr_before = 0, before = 0, nr_damaged = 0, damaged = 0;
	struct tfmt_reader *all, *part;
	struct tfmt_event want, ev;
	int went, got, wanted;

	assert_int_equal(tfmt_reader_open(&all, path, NULL), 0);
	assert_int_equal(tfmt_reader_open(&part, path, NULL), 0);
	went = tfmt_reader_seek(part, time_ns);
	assert_true(went >= 0);
	got = next(part, &ev, &nr_before, &nr_damaged);
	assert_true(!went || nr_before > 0);
	wanted = next(all, &want, &before, &damaged);
	while (wanted && (!got || want.ordinal < ev.ordinal)) {
		assert_true(want.time_ns < time_ns); /* nothing that is wanted is passed over */
		wanted = next(all, &want, &before, &damaged);
	}
	damaged = 0;
	check_shapes(all, part);
	while (got > 0 && wanted > 0) {
		assert_event_equal(&ev, &want);
		if (ev.ordinal % TOTALS_EVERY == 0)
			check_totals(all, part);
		got = next(part, &ev, &nr_before, &nr_damaged);
		wanted = next(all, &want, &before, &damaged);
	}
	assert_int_equal(got, wanted);
	assert_int_equal(tfmt_reader_summary(part)->nr_events, tfmt_reader_summary(all)->nr_events);
	assert_int_equal(tfmt_reader_summary(part)->dropped_events, tfmt_reader_summary(all)->dropped_events);
	assert_int_equal(tfmt_reader_summary(part)->sealed, tfmt_reader_summary(all)->sealed);
	check_shapes(all, part);
	check_totals(all, part);
	tfmt_reader_close(all);
	tfmt_reader_close(part);
	return went;
}

/* How many of some times, from the first event's to beyond the last one's, there was a checkpoint before. */
static inline unsigned check_times(const char *path)
{
	uint64_t last = stream.time_ns;
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_TIMES; i++)
		nr += check_seek(path, last / NR_TIMES * i + stream_below(&stream, last / NR_TIMES)) > 0;
	assert_int_equal(check_seek(path, 0), 0);
	nr += check_seek(path, UINT64_MAX) > 0;
	return nr;
}

#endif
