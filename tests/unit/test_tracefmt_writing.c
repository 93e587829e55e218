/* SPDX-License-Identifier: MIT */
/* Events merged and written several at once are those merged and written one by one; and so are varints. */
#include "tests/unit/tracefmt_recorder.h"

#include "tracefmt/varint.h"
#include "tracefmt/varints_put.h"
#include "tracefmt/writer.h"

static struct stream stream;

static void assert_same_event(const struct tfmt_event *a, const struct tfmt_event *b)
{
	struct tfmt_event x = *a, y = *b;

	/* Padding is not compared. */
	assert_int_equal(x.before, y.before);
	assert_memory_equal(&x, &y, offsetof(struct tfmt_event, before));
}

/* Times that several rings share, orders that are missing or late, kinds that nobody knows. */
static void push_something(struct recorder *rec, uint64_t *held, unsigned *nr_held)
{
	struct tfmt_event ev, want;
	unsigned ring;

	stream_next(&stream, &ev, &want);
	ev.time_ns = stream_below(&stream, 3) ? ev.time_ns : ev.time_ns / 4096 * 4096;
	if (stream_below(&stream, 50) == 0)
		ev.kind = stream_below(&stream, 2) ? TFMT_NONE : TFMT_NR_KINDS + 3;
	if (!stream_below(&stream, 300) && domain_of(&ev) < TFMT_NR_DEVICES && *nr_held < 8) {
		held[(*nr_held)++] = (uint64_t)domain_of(&ev) << 56 | rec->order[domain_of(&ev)]++;
		return;
	}
	ring = (unsigned)(stream_below(&stream, 4) ? stream.ordinal / 64 : stream_random(&stream)) % NR_RINGS;
	if (!ring_is_full(rec, ring))
		push(rec, ring, &ev);
}

/* What was held back comes, or never does. */
static void push_held(struct recorder *rec, uint64_t *held, unsigned *nr_held)
{
	struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC, .time_ns = stream.time_ns, .address = 4096 };

	while (*nr_held) {
		uint64_t which = held[--*nr_held];
		unsigned ring = (unsigned)stream_below(&stream, NR_RINGS);

		ev.device = (uint8_t)(which >> 56);
		if (stream_below(&stream, 3) && !ring_is_full(rec, ring))
			push_ordered(rec, ring, &ev, which << 8 >> 8);
	}
}

static void merged_at_once_is_merged_one_by_one(void **state)
{
	struct tfmt_event one, many[40];
	struct recorder rec;
	struct tfmt_merge *other;
	uint64_t held[8], nr_merged = 0;
	unsigned nr_held = 0;

	(void)state;
	recorder_start(&rec);
	assert_int_equal(tfmt_merge_open(&other, &rec.view, NULL, NULL, 0), 0);
	stream_init(&stream, 11, 0, false);
	for (unsigned round = 1; round < 1500; round++) {
		uint64_t now = round * 1000, gap = stream_below(&stream, 3000);
		uint32_t nr;

		for (unsigned i = 0; i < 30; i++)
			push_something(&rec, held, &nr_held);
		if (!stream_below(&stream, 4))
			push_held(&rec, held, &nr_held);
		do {
			uint32_t max = 1 + (uint32_t)stream_below(&stream, 40);

			nr = tfmt_merge_events(other, now, gap, many, max);
			for (uint32_t i = 0; i < nr; i++) {
				assert_int_equal(tfmt_merge_next(rec.merge, now, gap, &one), 1);
				assert_same_event(&one, &many[i]);
			}
			if (nr < max)
				assert_int_equal(tfmt_merge_next(rec.merge, now, gap, &one), 0);
			nr_merged += nr;
		} while (nr);
		drain_advance(&rec);
	}
	assert_true(nr_merged > 20000);
	tfmt_merge_close(other);
	recorder_stop(&rec);
}

static struct tfmt_writer *open_writer(const char *path, int *fd, bool keeps)
{
	struct tfmt_header h = stream_header(6);
	struct tfmt_writer *w;

	*fd = stream_create(path);
	assert_int_equal(tfmt_writer_open(&w, *fd, &h, 1), 0);
	if (keeps)
		assert_int_equal(tfmt_writer_keep(w), 0);
	return w;
}

static void assert_same_files(int a, int b)
{
	uint8_t x[4096], y[4096];
	ssize_t n;
	off_t at = 0;

	while ((n = pread(a, x, sizeof(x), at)) > 0) {
		assert_int_equal(pread(b, y, sizeof(y), at), n);
		assert_memory_equal(x, y, (size_t)n);
		at += n;
	}
	assert_int_equal(pread(b, y, sizeof(y), at), 0);
}

/* The same frames, byte by byte, whichever way they are encoded; with a history, the same checkpoint too. */
static void check_written(uint64_t seed, bool wild, bool keeps)
{
	struct tfmt_event batch[TFMT_WRITER_BATCH], want;
	int fd[2];
	struct tfmt_writer *one = open_writer(stream_path("one.vtr"), &fd[0], keeps);
	struct tfmt_writer *many = open_writer(stream_path("many.vtr"), &fd[1], keeps);

	one->encoder.way = TFMT_WAY_PORTABLE;
	stream_init(&stream, seed, 6, wild);
	for (unsigned round = 0; round < 2000; round++) {
		uint32_t room = tfmt_writer_room(many), nr = 1 + (uint32_t)stream_below(&stream, room);
		int full = 0, full_many;

		assert_int_equal(room, tfmt_writer_room(one));
		assert_true(room > TFMT_WRITER_AHEAD && room <= TFMT_WRITER_BATCH);
		for (uint32_t i = 0; i < nr; i++) {
			stream_next(&stream, &batch[i], &want);
			full = tfmt_writer_event(one, &batch[i]);
			assert_true(full >= 0);
		}
		full_many = tfmt_writer_batch(many, batch, nr);
		assert_int_equal(full, full_many);
		if (!full)
			continue;
		assert_int_equal(tfmt_writer_flush(one, NULL, 0), 0);
		assert_int_equal(tfmt_writer_flush(many, NULL, 0), 0);
	}
	assert_int_equal(tfmt_writer_flush(one, NULL, 0), 0);
	assert_int_equal(tfmt_writer_flush(many, NULL, 0), 0);
	if (keeps) {
		assert_int_equal(tfmt_writer_checkpoint(one, 0), 0);
		assert_int_equal(tfmt_writer_checkpoint(many, 0), 0);
	}
	assert_true(tfmt_writer_bytes(many) > 100000);
	assert_same_files(fd[0], fd[1]);
	tfmt_writer_close(one);
	tfmt_writer_close(many);
	close(fd[0]);
	close(fd[1]);
	unlink(stream_path("one.vtr"));
	unlink(stream_path("many.vtr"));
}

static void written_at_once_is_written_one_by_one(void **state)
{
	(void)state;
	check_written(1, false, false);
	check_written(2, false, true);
	check_written(3, true, false);
	check_written(4, true, true);
}

#define MANY 600

static void varints_are_those_put_one_by_one(void **state)
{
	static const unsigned widest[] = { 7, 14, 21, 35, 56, 57, 63, 64 };
	uint8_t have[MANY * TFMT_VARINT_MAX + TFMT_VARINTS_PUT_AHEAD], want[MANY * TFMT_VARINT_MAX];
	uint64_t value[MANY];

	(void)state;
	stream_init(&stream, 5, 0, false);
	for (unsigned round = 0; round < 2000; round++) {
		unsigned bits = widest[round % (sizeof(widest) / sizeof(widest[0]))];
		uint32_t nr = (uint32_t)stream_below(&stream, MANY + 1);
		uint8_t *end = want;
		uint64_t any = 0;

		for (uint32_t i = 0; i < nr; i++) {
			value[i] = stream_random(&stream) >> (64 - bits);
			value[i] >>= stream_below(&stream, bits);
			any |= value[i];
			end = tfmt_varint_put(end, value[i]);
		}
		for (enum tfmt_way way = TFMT_WAY_PORTABLE; way <= tfmt_way_best(); way++) {
			assert_int_equal(tfmt_varints_put(have, value, nr, any, way) - have, end - want);
			assert_memory_equal(have, want, (size_t)(end - want));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merged_at_once_is_merged_one_by_one),
		cmocka_unit_test(written_at_once_is_written_one_by_one),
		cmocka_unit_test(varints_are_those_put_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
