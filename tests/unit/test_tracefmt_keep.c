/* SPDX-License-Identifier: MIT */
/* A flight recorder's trace: what is dropped, what is kept, and that the books go on as if nothing had been. */
#include <stddef.h>

#include "tests/unit/tracefmt_flight.h"

#define NR_EVENTS 60000
#define KEPT_BYTES 150000
#define CHECKPOINT_BYTES 20000

static struct stream stream;

/* The model: every event as a reader must give it, and what was live, in total, and counted after it. */
struct model {
	struct tfmt_event *want;
	struct tfmt_totals totals;
	uint64_t allocs[TFMT_NR_DEVICES], frees[TFMT_NR_DEVICES], ooms[TFMT_NR_DEVICES];
	uint64_t peak[TFMT_NR_DEVICES], peak_time[TFMT_NR_DEVICES];
};

static struct model model;

static void model_count(const struct tfmt_event *want)
{
	unsigned d = want->device;

	if (d >= TFMT_NR_DEVICES)
		return;
	model.allocs[d] += want->kind == TFMT_TENSOR_ALLOC;
	model.frees[d] += want->kind == TFMT_TENSOR_FREE;
	model.ooms[d] += want->kind == TFMT_TENSOR_OOM;
	if (want->kind == TFMT_TENSOR_ALLOC && stream.totals.allocated[d] > model.peak[d]) {
		model.peak[d] = stream.totals.allocated[d];
		model.peak_time[d] = want->time_ns;
	}
}

/* A shape and a clock now and then, as a long job has them. */
static void define(struct tfmt_writer *w, unsigned i)
{
	uint8_t payload[64], *p;

	if (i % 50)
		return;
	flight_define_shape(w, 1000 + i, 1000 + i);
	p = tfmt_put_varint(payload, i);
	p = tfmt_put_varint(p, 2 * i);
	assert_int_equal(tfmt_writer_definition(w, TFMT_DEF_CLOCK, i, payload, (size_t)(p - payload)), 0);
}

static void record(struct flight *f, unsigned nr, uint64_t interval, uint64_t keep)
{
	struct tfmt_event ev;

	memset(model.allocs, 0, sizeof(model) - offsetof(struct model, allocs));
	for (unsigned i = 0; i < nr; i++) {
		int full;

		stream_next(&stream, &ev, &model.want[i]);
		ev.flags &= (uint16_t)~TFMT_FLAG_TEARDOWN; /* after it there are no checkpoints */
		model.want[i].flags &= (uint16_t)~TFMT_FLAG_TEARDOWN;
		define(f->w, i);
		full = tfmt_writer_event(f->w, &ev);
		assert_true(full >= 0);
		model_count(&model.want[i]);
		if (!full && stream_below(&stream, 300))
			continue;
		assert_int_equal(tfmt_writer_flush(f->w, NULL, 0), 0);
		flight_tend(f, interval, keep);
	}
}

/* An event from before the window is the original one, or gives a block the references that it had. */
static void check_before(const struct tfmt_event *ev, uint64_t first)
{
	struct tfmt_event want;

	if (ev->ordinal == first) {
		assert_true(ev->kind == TFMT_HANDLE_RETAIN || ev->kind == TFMT_DRIVER_FREE || ev->kind == TFMT_DRIVER_ALLOC);
		return;
	}
	assert_true(ev->ordinal < first);
	want = model.want[ev->ordinal];
	want.before = true;
	want.flags |= ev->flags & (TFMT_FLAG_BEGUN | TFMT_FLAG_IN_BACKWARD);
	assert_event_equal(ev, &want);
}

/* Read a kept trace: its events are the stream's tail, its totals and figures those of the whole stream. */
static uint64_t check_kept(const char *path, unsigned nr)
{
	const struct tfmt_summary *s;
	const struct tfmt_figures *f;
	struct tfmt_totals totals;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	uint64_t first = UINT64_MAX, next = 0, lost = 0, allocs[TFMT_NR_DEVICES] = { 0 };
	struct tfmt_shape shape;
	unsigned nr_before = 0;
	int got;

	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	while ((got = tfmt_reader_next(r, &ev)) > 0) {
		if (ev.before) {
			assert_int_equal(first, UINT64_MAX);
			check_before(&ev, tfmt_reader_summary(r)->dropped_events);
			nr_before++;
			continue;
		}
		if (first == UINT64_MAX)
			first = next = ev.ordinal;
		assert_int_equal(ev.ordinal, next);
		assert_event_equal(&ev, &model.want[next++]);
		if (ev.kind == TFMT_TENSOR_ALLOC)
			allocs[ev.device]++;
		lost += ev.kind == TFMT_LOST ? ev.size : 0;
	}
	if (got < 0)
		fail_msg("%s", tfmt_reader_message(r));
	assert_int_equal(next, nr);
	s = tfmt_reader_summary(r);
	f = tfmt_reader_figures(r);
	assert_non_null(f);
	assert_true(nr_before > 0);
	assert_int_equal(s->dropped_events, first);
	assert_true(s->dropped_frames > 0);
	assert_int_equal(s->nr_events, nr);
	assert_int_equal(s->lost_events, lost);
	assert_int_equal(s->nr_damaged, 0);
	assert_true(s->window_ns >= model.want[0].time_ns && s->window_ns <= model.want[nr - 1].time_ns);
	tfmt_reader_totals(r, &totals);
	assert_memory_equal(&totals, &stream.totals, sizeof(totals));
	for (unsigned d = 0; d < TFMT_NR_DEVICES; d++) {
		assert_int_equal(f->of[d][TFMT_FIGURE_TENSOR_ALLOCS] + allocs[d], model.allocs[d]);
		if (f->of[d][TFMT_FIGURE_TENSOR_PEAK] == model.peak[d])
			assert_int_equal(f->of[d][TFMT_FIGURE_TENSOR_PEAK_TIME], model.peak_time[d]);
		else
			assert_true(f->of[d][TFMT_FIGURE_TENSOR_PEAK] < model.peak[d]);
	}
	for (unsigned i = 0; i < nr; i += 50) {
		assert_true(tfmt_reader_shape(r, 1000 + i, &shape));
		assert_int_equal(shape.bytes, 1000 + i);
	}
	tfmt_reader_close(r);
	return first;
}

static void check_flight(uint64_t seed, unsigned time_shift, bool wild)
{
	struct flight f;

	stream_init(&stream, seed, time_shift, wild);
	flight_start(&f, time_shift);
	record(&f, NR_EVENTS, CHECKPOINT_BYTES, KEPT_BYTES);
	flight_end(&f);
	assert_true(f.nr_drops > 1);
	check_kept(f.path, NR_EVENTS);
	flight_forget(&f);
}

static void test_random_streams(void **state)
{
	(void)state;
	model.want = calloc(NR_EVENTS, sizeof(*model.want));
	for (uint64_t seed = 1; seed <= 10; seed++)
		check_flight(seed, seed % 2 ? 6 : 0, false);
	free(model.want);
}

static void test_any_value(void **state)
{
	(void)state;
	model.want = calloc(NR_EVENTS, sizeof(*model.want));
	for (uint64_t seed = 101; seed <= 106; seed++)
		check_flight(seed, seed % 3, true);
	free(model.want);
}

#define HANDLE 0x5000
#define FIRST 0x70000000
#define SECOND 0x70200000
#define HANDLE_BYTES 0x200000

/* One number for three handles, freed too often, mapped twice at one address, and reused while it is mapped. */
static const struct tfmt_event handle_events[] = {
	{ .kind = TFMT_DRIVER_ALLOC, .address = HANDLE, .flags = TFMT_SPACE_HANDLE },
	{ .kind = TFMT_MAP, .address = FIRST, .aux = HANDLE },
	{ .kind = TFMT_DRIVER_FREE, .address = HANDLE, .flags = TFMT_SPACE_HANDLE },
	{ .kind = TFMT_DRIVER_FREE, .address = HANDLE, .flags = TFMT_SPACE_HANDLE },
	{ .kind = TFMT_FREE_FAILED, .address = HANDLE, .flags = TFMT_SPACE_HANDLE, .aux = 1 },
	{ .kind = TFMT_UNMAP, .address = FIRST },
	{ .kind = TFMT_DRIVER_ALLOC, .address = HANDLE, .flags = TFMT_SPACE_HANDLE },
	{ .kind = TFMT_MAP, .address = FIRST, .aux = HANDLE },
	{ .kind = TFMT_DRIVER_ALLOC, .address = HANDLE, .flags = TFMT_SPACE_HANDLE },
	{ .kind = TFMT_UNMAP, .address = FIRST },
	{ .kind = TFMT_MAP, .address = SECOND, .aux = HANDLE },
	{ .kind = TFMT_MAP, .address = SECOND, .aux = HANDLE },
	{ .kind = TFMT_DRIVER_FREE, .address = HANDLE, .flags = TFMT_SPACE_HANDLE },
	{ .kind = TFMT_UNMAP, .address = SECOND },
};
#define NR_HANDLE_EVENTS (sizeof(handle_events) / sizeof(handle_events[0]))
static const uint64_t nr_live[] = { 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0 }; /* handles, after each */

/* All but the first nr_dropped events (0: all) are kept: what the ledger makes of them is what it was. */
static void check_handles(unsigned nr_dropped)
{
	struct tfmt_totals totals;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	struct flight f;
	unsigned next = nr_dropped;

	flight_start(&f, 0);
	for (unsigned i = 0; i < NR_HANDLE_EVENTS; i++) {
		ev = handle_events[i];
		ev.time_ns = 1000 + i;
		ev.size = HANDLE_BYTES;
		assert_true(tfmt_writer_event(f.w, &ev) >= 0);
		assert_int_equal(tfmt_writer_flush(f.w, NULL, 0), 0);
		if (i + 1 != nr_dropped)
			continue;
		assert_int_equal(tfmt_writer_checkpoint(f.w, 1), 0);
		f.other_fd = stream_create(f.other);
		assert_int_equal(tfmt_writer_drop_begin(f.w, f.other_fd, UINT64_MAX, 1), 0);
		while (tfmt_writer_drop_step(f.w, 60000) != 1)
			;
		assert_int_equal(rename(f.other, f.path), 0);
		tfmt_writer_drop_commit(f.w);
		close(f.fd);
		f.fd = f.other_fd;
		f.other_fd = -1;
	}
	flight_end(&f);
	assert_int_equal(tfmt_reader_open(&r, f.path, NULL), 0);
	while (tfmt_reader_next(r, &ev) > 0) {
		if (ev.before)
			continue;
		assert_int_equal(ev.ordinal, next);
		assert_int_equal(ev.address, handle_events[next].address);
		tfmt_reader_totals(r, &totals);
		assert_int_equal(totals.driver[0], nr_live[next++] * HANDLE_BYTES);
	}
	assert_int_equal(next, NR_HANDLE_EVENTS);
	assert_int_equal(tfmt_reader_summary(r)->nr_damaged, 0);
	tfmt_reader_close(r);
	flight_forget(&f);
}

static void test_handles(void **state)
{
	(void)state;
	for (unsigned nr_dropped = 0; nr_dropped < NR_HANDLE_EVENTS; nr_dropped++)
		check_handles(nr_dropped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_streams),
		cmocka_unit_test(test_any_value),
		cmocka_unit_test(test_handles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
