/* SPDX-License-Identifier: MIT */
/* The index at the end of a trace, in whatever state it is: nothing is read otherwise than by one who reads all. */
#include <sys/mman.h>

#include "tests/unit/tracefmt_seek.h"

#include "tracefmt/checkpoint.h"
#include "tracefmt/frame.h"
#include "tracefmt/seek.h"
#include "tracefmt/varint.h"

#include <zstd.h>

#define MAX_PLACES 256

/* ---- frames ---------------------------------------------------------------------------------- */

/* A recording in memory, and what its frames are. */
struct image {
	uint8_t *bytes;
	size_t len, index, end; /* where INDEX and END begin */
	size_t event, definitions, checkpoint; /* some frames of these types, in the middle */
	struct tfmt_place place[MAX_PLACES]; /* as the index has it */
	unsigned nr_places;
	size_t definition[MAX_PLACES];
	unsigned nr_definitions; /* before the last checkpoint */
	struct tfmt_checkpoint fields; /* of END */
};

static void read_index(struct image *m, const uint8_t *frame, const struct tfmt_frame_core *core)
{
	static uint8_t raw[TFMT_FRAME_RAW_MAX];
	struct tfmt_cursor c = { frame + core->header_bytes, frame + core->header_bytes + core->stored_bytes, false };
	struct tfmt_place p = { 0 };

	if (core->compression)
		c = (struct tfmt_cursor){ raw, raw + ZSTD_decompress(raw, sizeof(raw), c.p, core->stored_bytes), false };
	assert_int_equal(c.end - c.p, core->raw_bytes);
	if (tfmt_varint_get(&c) != TFMT_INDEX_CHECKPOINTS)
		return;
	while (c.p < c.end) {
		p.offset += tfmt_varint_get(&c);
		p.sequence += (uint32_t)tfmt_varint_get(&c);
		p.ordinal += tfmt_varint_get(&c);
		p.time_ns += tfmt_varint_get(&c);
		m->place[m->nr_places++] = p;
	}
	assert_false(c.bad);
}

static void load(struct image *m, const char *path)
{
	struct tfmt_frame_core core;

	memset(m, 0, sizeof(*m));
	m->bytes = stream_load(path, &m->len);
	for (size_t at = tfmt_get32(m->bytes + 12); at < m->len; at += (size_t)core.header_bytes + core.stored_bytes) {
		assert_int_equal(tfmt_frame_check(m->bytes + at, m->len - at, &core), TFMT_FRAME_GOOD);
		if (core.type == TFMT_TYPE_EVENTS && at < m->len / 2)
			m->event = at;
		if (core.type == TFMT_TYPE_CHECKPOINT && at < m->len / 2)
			m->checkpoint = at;
		if (core.type == TFMT_TYPE_DEFINITIONS && at < m->len / 2)
			m->definitions = at;
		if (core.type == TFMT_TYPE_DEFINITIONS)
			m->definition[m->nr_definitions++] = at;
		if (core.type == TFMT_TYPE_INDEX) {
			m->index = m->index ? m->index : at;
			read_index(m, m->bytes + at, &core);
		}
		m->end = at;
	}
	assert_int_equal(core.type, TFMT_TYPE_END);
	assert_int_equal(tfmt_checkpoint_get(&m->fields, m->bytes + m->end + TFMT_FRAME_CORE,
					     core.header_bytes - TFMT_FRAME_CORE), 0);
	assert_int_equal(m->fields.index_bytes, m->end - m->index);
	assert_true(m->nr_places > 3 && m->nr_definitions > 6);
	while (m->definition[m->nr_definitions - 1] > m->place[m->nr_places - 1].offset)
		m->nr_definitions--;
}

static void test_index_tells_the_truth(void **state)
{
	struct tfmt_frame_core core;
	struct tfmt_checkpoint at;
	struct image m;
	struct flight f;

	(void)state;
	record_whole(&f, 7);
	load(&m, f.path);
	for (unsigned i = 0; i < m.nr_places; i++) {
		const uint8_t *frame = m.bytes + m.place[i].offset;

		assert_int_equal(tfmt_frame_check(frame, m.len - m.place[i].offset, &core), TFMT_FRAME_GOOD);
		assert_int_equal(core.type, TFMT_TYPE_CHECKPOINT);
		assert_int_equal(core.sequence, m.place[i].sequence);
		tfmt_checkpoint_get(&at, frame + TFMT_FRAME_CORE, core.header_bytes - TFMT_FRAME_CORE);
		assert_int_equal(at.ordinal, m.place[i].ordinal);
	}
	free(m.bytes);
	flight_forget(&f);
}

/* ---- an index that is wrong ------------------------------------------------------------------ */

/* One bit is wrong, or the end is missing. */
static void test_damaged(void **state)
{
	struct flight f;
	struct image m;
	size_t at[6];

	(void)state;
	record_whole(&f, 8);
	load(&m, f.path);
	memcpy(at, (size_t[]){ m.index + 40, m.end + 50, m.event + 50, m.definitions + 60, m.checkpoint + 60, m.event + 8 },
	       sizeof(at));
	for (unsigned i = 0; i < 6; i++) {
		m.bytes[at[i]] ^= 0x10;
		stream_store(f.path, m.bytes, m.len);
		m.bytes[at[i]] ^= 0x10;
		/* What is read is read as it is; of what is passed over it is said that nobody looks. */
		if (i < 2 || i == 4)
			assert_true(check_times(f.path) > 0);
	}
	stream_store(f.path, m.bytes, m.index);
	assert_true(check_times(f.path) >= NR_TIMES);
	stream_store(f.path, m.bytes, m.end);
	assert_true(check_times(f.path) >= NR_TIMES);
	stream_store(f.path, m.bytes, m.index + 20);
	assert_true(check_times(f.path) >= NR_TIMES);
	free(m.bytes);
	flight_forget(&f);
}

static size_t put_frame(uint8_t *to, struct image *m, enum tfmt_frame_type type, const uint8_t *payload, size_t len)
{
	uint8_t *p = tfmt_checkpoint_put(to + TFMT_FRAME_CORE, &m->fields);
	struct tfmt_frame_core core = { .type = (uint8_t)type, .nr_records = 1, .header_bytes = (uint16_t)(p - to) };
	struct tfmt_frame_core last;

	assert_int_equal(tfmt_frame_check(m->bytes + m->end, m->len - m->end, &last), TFMT_FRAME_GOOD);
	core.sequence = last.sequence - (type == TFMT_TYPE_END ? 0 : m->fields.index_bytes ? 1 : 2);
	core.raw_bytes = core.stored_bytes = (uint32_t)len;
	memcpy(p, payload, len);
	tfmt_frame_seal(to, &core);
	return (size_t)core.header_bytes + len;
}

/* The file with this index: checkpoints in one frame, definitions in the next, of which there were two before. */
static void store_index(const char *path, struct image *m, const struct tfmt_place *place, unsigned nr_places,
			const size_t *definition, unsigned nr_definitions)
{
	static uint8_t payload[TFMT_FRAME_RAW_MAX];
	uint8_t *file = malloc(m->len + 4 * sizeof(payload)), *p = tfmt_varint_put(payload, TFMT_INDEX_CHECKPOINTS);
	struct tfmt_place last = { 0 };
	size_t len = m->index, before = 0;

	memcpy(file, m->bytes, m->index);
	m->fields.index_bytes = 0;
	for (unsigned i = 0; i < nr_places; last = place[i++]) {
		p = tfmt_varint_put(p, place[i].offset - last.offset);
		p = tfmt_varint_put(p, (uint32_t)(place[i].sequence - last.sequence));
		p = tfmt_varint_put(p, place[i].ordinal - last.ordinal);
		p = tfmt_varint_put(p, place[i].time_ns - last.time_ns);
	}
	len += put_frame(file + len, m, TFMT_TYPE_INDEX, payload, (size_t)(p - payload));
	m->fields.index_bytes = (uint32_t)(len - m->index);
	p = tfmt_varint_put(payload, TFMT_INDEX_DEFINITIONS);
	for (unsigned i = 0; i < nr_definitions; before = definition[i++])
		p = tfmt_varint_put(p, definition[i] - before);
	len += put_frame(file + len, m, TFMT_TYPE_INDEX, payload, (size_t)(p - payload));
	m->fields.index_bytes = (uint32_t)(len - m->index);
	memset(payload, 0, 16);
	payload[0] = TFMT_END_EXIT;
	len += put_frame(file + len, m, TFMT_TYPE_END, payload, 8);
	stream_store(path, file, len);
	free(file);
}

/* Checksums hold, and what the index says does not. Nothing is read otherwise than by one who reads all. */
static void test_lying_index(void **state)
{
	struct tfmt_place place[MAX_PLACES];
	size_t definition[MAX_PLACES];
	struct flight f;
	struct image m;
	unsigned nr;

	(void)state;
	record_whole(&f, 9);
	load(&m, f.path);
	nr = m.nr_places;
	store_index(f.path, &m, m.place, nr, m.definition, m.nr_definitions);
	assert_true(check_times(f.path) >= NR_TIMES);
	for (unsigned lie = 0; lie < 12; lie++) {
		unsigned nr_places = nr, nr_definitions = m.nr_definitions;

		memcpy(place, m.place, sizeof(place));
		memcpy(definition, m.definition, sizeof(definition));
		for (unsigned i = 0; i < nr; i++) {
			place[i].time_ns /= lie == 0 ? 2 : 1;
			place[i].ordinal += lie == 1;
			place[i].sequence += lie == 2;
			place[i].offset = lie == 3 ? m.event : lie == 4 ? UINT64_MAX - i : place[i].offset + (lie == 5);
			place[i].time_ns = lie == 6 ? 0 : place[i].time_ns;
			if (lie == 7) /* all of them another one, which is there */
				place[i] = m.place[nr - 1], place[i].time_ns = i;
		}
		if (lie == 8) /* one is missing */
			memmove(&definition[3], &definition[4], (--nr_definitions - 3) * sizeof(*definition));
		if (lie == 9)
			nr_definitions = 0;
		if (lie == 10)
			definition[2] = m.event;
		if (lie == 11) /* the same twice */
			definition[2] = definition[1];
		store_index(f.path, &m, place, nr_places, definition, nr_definitions);
		check_times(f.path);
	}
	free(m.bytes);
	flight_forget(&f);
}

static void test_any_index(void **state)
{
	uint8_t *end;
	struct flight f;
	struct image m;

	(void)state;
	record_whole(&f, 10);
	load(&m, f.path);
	end = malloc(m.len);
	memcpy(end, m.bytes, m.len);
	for (unsigned i = 0; i < 100; i++) {
		struct tfmt_frame_core core;
		size_t at = m.index;

		/* The first of its frames, with some bytes changed and a checksum that holds. */
		assert_int_equal(tfmt_frame_check(end + at, m.len - at, &core), TFMT_FRAME_GOOD);
		for (unsigned k = 0; k < 4; k++)
			m.bytes[at + core.header_bytes + stream_below(&stream, core.stored_bytes)] =
				(uint8_t)stream_random(&stream);
		tfmt_frame_seal(m.bytes + at, &core);
		stream_store(f.path, m.bytes, m.len);
		check_seek(f.path, stream_below(&stream, stream.time_ns));
		memcpy(m.bytes + at, end + at, m.end - at);
	}
	free(end);
	free(m.bytes);
	flight_forget(&f);
}

/* ---- any byte wrong -------------------------------------------------------------------------- */

#define GOLDEN "tests/golden/v1/indexed-references.vtr"
#define GOLDEN_EVENTS 13

static struct tfmt_event golden[GOLDEN_EVENTS];
static char function[GOLDEN_EVENTS][64]; /* by which they were called */

/* Read from a time on. Returns whether something was said to be wrong; what is read is what was there. */
static bool is_said(const char *path, uint64_t time_ns)
{
	bool damaged = false, complete;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	uint64_t nr = 0;
	int got;

	if (tfmt_reader_open(&r, path, NULL))
		return true;
	assert_true(tfmt_reader_seek(r, time_ns) >= 0);
	while ((got = tfmt_reader_next(r, &ev)) != 0) {
		damaged |= got < 0;
		if (got < 0 || ev.before)
			continue;
		assert_true(ev.ordinal < GOLDEN_EVENTS);
		if (!damaged)
			assert_event_equal(&ev, &golden[ev.ordinal]);
		if (!damaged && ev.function)
			assert_string_equal(tfmt_reader_function(r, ev.function), function[ev.ordinal]);
		nr = ev.ordinal + 1;
	}
	complete = tfmt_reader_summary(r)->complete;
	tfmt_reader_close(r);
	assert_true(damaged || !complete || nr == GOLDEN_EVENTS);
	return damaged || !complete;
}

static void test_sweep(void **state)
{
	int fd = memfd_create("sweep.vtr", MFD_CLOEXEC);
	char path[64];
	unsigned nr_said = 0, nr_passed_over = 0;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	uint8_t *bytes;
	size_t len;

	(void)state;
	assert_int_equal(tfmt_reader_open(&r, GOLDEN, NULL), 0);
	for (unsigned i = 0; i < GOLDEN_EVENTS; i++) {
		assert_int_equal(tfmt_reader_next(r, &golden[i]), 1);
		snprintf(function[i], sizeof(function[i]), "%s", tfmt_reader_function(r, golden[i].function));
	}
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	tfmt_reader_close(r);
	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = stream_load(GOLDEN, &len);
	stream_store(path, bytes, len);
	assert_false(is_said(path, golden[GOLDEN_EVENTS - 1].time_ns));
	for (size_t at = 0; at < len; at++) {
		bool said;

		bytes[at] ^= (uint8_t)(1 << at % 8);
		stream_store(path, bytes, len);
		bytes[at] ^= (uint8_t)(1 << at % 8);
		said = is_said(path, golden[GOLDEN_EVENTS - 1].time_ns);
		nr_said += said;
		nr_passed_over += !said;
	}
	assert_true(nr_said > len / 8 && nr_passed_over > len / 8);
	for (size_t cut = 0; cut < len; cut++) {
		stream_store(path, bytes, cut);
		assert_true(is_said(path, golden[GOLDEN_EVENTS / 2].time_ns));
	}
	close(fd);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_index_tells_the_truth),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_lying_index),
		cmocka_unit_test(test_any_index),
		cmocka_unit_test(test_sweep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
