/* SPDX-License-Identifier: MIT */
/*
 * Damaged, cut, hostile and newer traces: the same events, or fewer and said so, or refused; never a crash.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zstd.h>

#include "tests/unit/tracefmt_stream.h"
#include "tracefmt/checkpoint.h"
#include "tracefmt/frame.h"
#include "tracefmt/varint.h"

#define NR_EVENTS 120
#define EVENTS_PER_FRAME 20

static struct stream stream;
static struct tfmt_event truth[NR_EVENTS];

/* A small trace of several frames, with the truth about it, in memory. */
static uint8_t *make_trace(size_t *len)
{
	const char *path = stream_path("small.vtr");
	struct tfmt_header h = stream_header(6);
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	int fd = stream_create(path);
	struct tfmt_writer *w;
	struct tfmt_event ev;
	uint8_t buf[32], *p, *bytes;
	unsigned i;

	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	stream_init(&stream, 12, 6, false);
	for (i = 0; i < NR_EVENTS; i++) {
		do
			stream_next(&stream, &ev, &truth[i]);
		while (ev.kind == TFMT_LOST && stream.ordinal--);
		assert_true(tfmt_writer_event(w, &ev) >= 0);
		if (i % EVENTS_PER_FRAME != EVENTS_PER_FRAME - 1)
			continue;
		p = tfmt_put_string(buf, "key", 3);
		p = tfmt_put_string(p, "value", 5);
		assert_int_equal(tfmt_writer_definition(w, TFMT_DEF_INFO, i, buf, (size_t)(p - buf)), 0);
		assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
	}
	assert_int_equal(tfmt_writer_end(w, &status), 0);
	tfmt_writer_close(w);
	close(fd);
	bytes = stream_load(path, len);
	unlink(path);
	return bytes;
}

struct outcome {
	int opened;
	uint64_t offset; /* of an error at opening */
	unsigned nr_events, nr_complaints;
	int last_complaint;
	bool differs; /* an event is not what it should be */
	struct tfmt_summary summary;
};

/* Everything but what a free inherits from an allocation that was lost. */
static bool event_matches(const struct tfmt_event *ev, const struct tfmt_event *want)
{
	bool orphan = ev->alloc_ordinal == TFMT_NO_ORDINAL && want->alloc_ordinal != TFMT_NO_ORDINAL;

	if (ev->ordinal != want->ordinal || ev->kind != want->kind || ev->time_ns != want->time_ns ||
	    ev->aux != want->aux || ev->python_stack != want->python_stack || ev->thread != want->thread)
		return false;
	return orphan || (ev->alloc_ordinal == want->alloc_ordinal && ev->address == want->address &&
			  ev->size == want->size && ev->shape == want->shape && ev->device == want->device);
}

static void read_trace(const char *path, struct outcome *o)
{
	struct tfmt_reader *r;
	struct tfmt_event ev;
	int got;

	memset(o, 0, sizeof(*o));
	o->opened = tfmt_reader_open(&r, path, &o->offset);
	if (o->opened) {
		assert_null(r);
		assert_true(strlen(tfmt_strerror(o->opened)) > 0);
		return;
	}
	while ((got = tfmt_reader_next(r, &ev)) != 0) {
		if (got < 0) {
			o->nr_complaints++;
			o->last_complaint = got;
			assert_true(strlen(tfmt_reader_message(r)) > 0);
			continue;
		}
		if (ev.ordinal >= NR_EVENTS || !event_matches(&ev, &truth[ev.ordinal]))
			o->differs = true;
		o->nr_events++;
	}
	o->summary = *tfmt_reader_summary(r);
	tfmt_reader_close(r);
}

/* Thousands of files are read here, so they lie in memory. */
static void read_bytes(const uint8_t *bytes, size_t len, struct outcome *o)
{
	static int fd = -1;
	char path[64];

	if (fd < 0)
		fd = memfd_create("damaged.vtr", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, bytes, len, 0), (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_trace(path, o);
}

/* ---- frames of a file in memory --------------------------------------------------------------- */

static size_t header_bytes(const uint8_t *bytes)
{
	return tfmt_get32(bytes + 12);
}

/* The offset of the next frame, 0 at the end. */
static size_t next_frame(const uint8_t *bytes, size_t len, size_t offset)
{
	struct tfmt_frame_core core;

	offset = offset ? offset : header_bytes(bytes);
	if (tfmt_frame_check(bytes + offset, len - offset, &core) != TFMT_FRAME_GOOD)
		return 0;
	offset += (size_t)core.header_bytes + core.stored_bytes;
	return offset < len ? offset : 0;
}

static void test_cut_anywhere(void **state)
{
	size_t len, cut, boundary;
	uint8_t *bytes = make_trace(&len);
	struct outcome o;

	(void)state;
	read_bytes(bytes, len, &o);
	assert_true(o.summary.complete && !o.differs && o.nr_events == NR_EVENTS);
	boundary = header_bytes(bytes);
	for (cut = 0; cut < len; cut++) {
		read_bytes(bytes, cut, &o);
		assert_false(o.differs);
		if (cut < header_bytes(bytes)) {
			assert_int_equal(o.opened, cut ? TFMT_E_CUT : TFMT_E_EMPTY);
			assert_int_equal(o.offset, cut);
			continue;
		}
		if (cut > boundary && next_frame(bytes, len, boundary) == cut)
			boundary = cut;
		assert_int_equal(o.opened, 0);
		assert_int_equal(o.nr_events % EVENTS_PER_FRAME, 0);
		assert_false(o.summary.complete);
		assert_int_equal(o.summary.cut, cut != boundary);
		assert_int_equal(o.nr_complaints, cut != boundary);
		if (cut != boundary) {
			assert_int_equal(o.last_complaint, TFMT_E_CUT);
			assert_int_equal(o.summary.first_damage_offset, boundary);
		}
	}
	free(bytes);
}

static void test_flip_every_bit(void **state)
{
	size_t len, bit;
	uint8_t *bytes = make_trace(&len);
	struct outcome o;

	(void)state;
	for (bit = 0; bit < len * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		read_bytes(bytes, len, &o);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(o.differs);
		if (bit / 8 < header_bytes(bytes)) {
			assert_true(o.opened < 0);
			assert_in_range(o.offset, 0, header_bytes(bytes));
			continue;
		}
		assert_true(o.nr_complaints > 0);
		assert_false(o.summary.complete);
		/* All frames but the last can count on a next one to tell how many events are missing. */
		if (o.nr_events < NR_EVENTS)
			assert_int_equal(o.nr_events + o.summary.lost_events, NR_EVENTS);
	}
	free(bytes);
}

/* Garbage of any kind between, before and after frames is stepped over. */
static void test_garbage_between_frames(void **state)
{
	size_t len, at;
	uint8_t *bytes = make_trace(&len), *mixed = malloc(len + 200000);
	struct outcome o;

	(void)state;
	for (at = header_bytes(bytes); at; at = next_frame(bytes, len, at)) {
		memcpy(mixed, bytes, at);
		memset(mixed + at, 0xb6, 200000); /* the first byte of the magic */
		memcpy(mixed + at + 100, TFMT_FRAME_MAGIC, 4);
		memcpy(mixed + at + 200000, bytes + at, len - at);
		read_bytes(mixed, len + 200000, &o);
		assert_false(o.differs);
		assert_int_equal(o.nr_events, NR_EVENTS);
		assert_int_equal(o.nr_complaints, 1);
		assert_int_equal(o.summary.lost_events, 0);
		assert_int_equal(o.summary.damaged_bytes, 200000);
		assert_int_equal(o.summary.first_damage_offset, at);
	}
	free(mixed);
	free(bytes);
}

/* A frame that comes twice, or too early, must not count twice. */
static void test_repeated_frames(void **state)
{
	size_t len, first, second;
	uint8_t *bytes = make_trace(&len), *twice = malloc(2 * len);
	struct outcome o;

	(void)state;
	first = header_bytes(bytes);
	second = next_frame(bytes, len, next_frame(bytes, len, first));
	memcpy(twice, bytes, second);
	memcpy(twice + second, bytes + first, len - first);
	read_bytes(twice, second + len - first, &o);
	assert_false(o.differs);
	assert_int_equal(o.nr_events, NR_EVENTS);
	assert_true(o.nr_complaints > 0);
	free(twice);
	free(bytes);
}

/* After damage the totals are those of the next frame's header: as if nothing had been lost. */
static void test_totals_after_damage(void **state)
{
	const char *path = stream_path("totals.vtr");
	struct tfmt_totals want, got;
	size_t len, at;
	uint8_t *bytes = make_trace(&len);
	struct tfmt_reader *r;
	struct tfmt_event ev;
	int err;

	(void)state;
	at = next_frame(bytes, len, next_frame(bytes, len, 0)); /* the second frame of definitions */
	at = next_frame(bytes, len, at);
	bytes[at + 100] ^= 1;
	stream_store(path, bytes, len);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	while ((err = tfmt_reader_next(r, &ev)) > 0)
		continue;
	assert_int_equal(err, TFMT_E_DAMAGED);
	tfmt_reader_totals(r, &want);
	assert_int_equal(tfmt_reader_next(r, &ev), 1);
	assert_int_equal(ev.ordinal, 2 * EVENTS_PER_FRAME);
	while ((err = tfmt_reader_next(r, &ev)) > 0)
		continue;
	assert_int_equal(err, 0);
	tfmt_reader_totals(r, &got);
	assert_memory_equal(got.reserved, stream.totals.reserved, sizeof(got.reserved));
	assert_int_equal(tfmt_reader_summary(r)->lost_events, EVENTS_PER_FRAME);
	tfmt_reader_close(r);
	unlink(path);
	free(bytes);
}

/* ---- files that are not traces of this version ------------------------------------------------ */

static void test_not_a_trace(void **state)
{
	struct outcome o;
	uint64_t offset = 99;
	struct tfmt_reader *r;
	size_t len;
	uint8_t *bytes = make_trace(&len);

	(void)state;
	read_bytes((const uint8_t *)"", 0, &o);
	assert_int_equal(o.opened, TFMT_E_EMPTY);
	read_bytes((const uint8_t *)"hello, world, this is text", 26, &o);
	assert_int_equal(o.opened, TFMT_E_NOT_TRACE);
	assert_int_equal(o.offset, 0);
	read_bytes((const uint8_t *)"\x89VTF\n\n", 6, &o);
	assert_int_equal(o.opened, TFMT_E_NOT_TRACE);
	assert_int_equal(o.offset, 4);
	bytes[8]++;
	read_bytes(bytes, len, &o);
	assert_int_equal(o.opened, TFMT_E_VERSION);
	assert_int_equal(o.offset, 8);
	free(bytes);
	assert_int_equal(tfmt_reader_open(&r, "/nonexistent/x.vtr", &offset), TFMT_E_IO);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(tfmt_reader_open(&r, "/", &offset), TFMT_E_IO);
	assert_int_equal(errno, EISDIR);
	tfmt_reader_close(NULL);
}

/* ---- a later version's additions -------------------------------------------------------------- */

/* Append a frame to *out with its core changed as wished; the checksum is made to hold. */
static size_t put_frame(uint8_t *out, const uint8_t *header, size_t header_len, const uint8_t *payload,
			size_t len, struct tfmt_frame_core core)
{
	memcpy(out, header, header_len);
	memcpy(out + header_len, payload, len);
	core.header_bytes = (uint16_t)header_len;
	core.stored_bytes = (uint32_t)len;
	tfmt_frame_seal(out, &core);
	return header_len + len;
}

static size_t unpack(const uint8_t *frame, const struct tfmt_frame_core *core, uint8_t *raw)
{
	const uint8_t *stored = frame + core->header_bytes;

	if (core->compression == TFMT_COMPRESSION_NONE) {
		memcpy(raw, stored, core->raw_bytes);
		return core->raw_bytes;
	}
	assert_int_equal(ZSTD_decompress(raw, TFMT_FRAME_RAW_MAX, stored, core->stored_bytes),
			 core->raw_bytes);
	return core->raw_bytes;
}

/* In front of every frame one of an unknown type; in every frame a column and a header field unknown too. */
static void test_unknown_additions(void **state)
{
	static uint8_t raw[TFMT_FRAME_RAW_MAX + 64], header[65536];
	size_t len, at, used, n, h;
	uint8_t *bytes = make_trace(&len), *out = malloc(20 * len + TFMT_FRAME_RAW_MAX), *p;
	struct tfmt_frame_core core, unknown = { .type = 200, .compression = 9, .raw_bytes = 7 };
	uint32_t sequence = 0;
	struct outcome o;

	(void)state;
	used = header_bytes(bytes);
	memcpy(out, bytes, used);
	for (at = used; at; at = next_frame(bytes, len, at)) {
		assert_int_equal(tfmt_frame_check(bytes + at, len - at, &core), TFMT_FRAME_GOOD);
		memcpy(header, bytes + at, core.header_bytes);
		p = tfmt_put_varint(header + core.header_bytes, 77);
		h = (size_t)(tfmt_put_string(p, "what", 4) - header);
		unknown.sequence = sequence++;
		used += put_frame(out + used, header, h, (const uint8_t *)"unknown", 7, unknown);
		n = unpack(bytes + at, &core, raw);
		if (core.type == TFMT_TYPE_EVENTS)
			n = (size_t)(tfmt_put_string(tfmt_put_varint(raw + n, 99), "later", 5) - raw);
		core.compression = TFMT_COMPRESSION_NONE;
		core.raw_bytes = (uint32_t)n;
		core.sequence = sequence++;
		used += put_frame(out + used, header, h, raw, n, core);
	}
	read_bytes(out, used, &o);
	assert_int_equal(o.opened, 0);
	assert_false(o.differs);
	assert_int_equal(o.nr_complaints, 0);
	assert_int_equal(o.nr_events, NR_EVENTS);
	assert_true(o.summary.complete);
	free(out);
	free(bytes);
}

static void test_unknown_event_kinds(void **state)
{
	const char *path = stream_path("kinds.vtr");
	struct tfmt_header h = stream_header(0);
	struct tfmt_event ev = { .kind = TFMT_NR_KINDS + 5, .size = 3 }, got;
	int fd = stream_create(path);
	struct tfmt_writer *w;
	struct tfmt_reader *r;

	(void)state;
	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	assert_int_equal(tfmt_writer_event(w, &ev), 0);
	ev.kind = TFMT_MEMORY_INFO;
	assert_int_equal(tfmt_writer_event(w, &ev), 0);
	assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
	tfmt_writer_close(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	assert_int_equal(tfmt_reader_next(r, &got), 1);
	assert_int_equal(got.kind, TFMT_MEMORY_INFO);
	assert_int_equal(got.ordinal, 1);
	assert_int_equal(tfmt_reader_next(r, &got), 0);
	tfmt_reader_close(r);
	unlink(path);
}

/* ---- hostile bytes under checksums that hold -------------------------------------------------- */

static void test_hostile_frames(void **state)
{
	size_t len, at, next, used;
	uint8_t *bytes = make_trace(&len), *out = malloc(2 * len + 10 * TFMT_FRAME_RAW_MAX);
	static uint8_t raw[TFMT_FRAME_RAW_MAX], header[65536];
	struct tfmt_frame_core core;
	struct outcome o;
	unsigned round, i;

	(void)state;
	for (round = 0; round < 3000; round++) {
		used = header_bytes(bytes);
		memcpy(out, bytes, used);
		for (at = used; at; at = next) {
			size_t n;

			next = next_frame(bytes, len, at);
			assert_int_equal(tfmt_frame_check(bytes + at, len - at, &core), TFMT_FRAME_GOOD);
			n = unpack(bytes + at, &core, raw);
			memcpy(header, bytes + at, core.header_bytes);
			for (i = (unsigned)stream_below(&stream, 3); i; i--)
				raw[stream_below(&stream, n)] = (uint8_t)stream_value(&stream);
			if (!stream_below(&stream, 4))
				header[32 + stream_below(&stream, core.header_bytes - 32)] =
					(uint8_t)stream_value(&stream);
			if (!stream_below(&stream, 16))
				core.nr_records = (uint32_t)stream_below(&stream, 65537);
			core.compression = TFMT_COMPRESSION_NONE;
			used += put_frame(out + used, header, core.header_bytes, raw, n, core);
		}
		read_bytes(out, used, &o);
		assert_int_equal(o.opened, 0);
	}
	free(out);
	free(bytes);
}

/* ---- a disk that is full ----------------------------------------------------------------------- */

/*
 * Write until the file may not grow any more; what lies in it must read, up to a whole frame. False when
 * the limit was never reached.
 */
static bool check_limit(size_t limit)
{
	const char *path = stream_path("full.vtr");
	struct rlimit old, new;
	struct tfmt_header h = stream_header(6);
	int fd = stream_create(path), err = 0;
	struct tfmt_writer *w = NULL;
	struct tfmt_event ev;
	struct outcome o;
	struct stat st;
	unsigned i;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	new = old;
	new.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &new), 0);
	err = tfmt_writer_open(&w, fd, &h, 1);
	stream_init(&stream, 12, 6, false);
	for (i = 0; i < NR_EVENTS && !err; i++) {
		do
			stream_next(&stream, &ev, &truth[i]);
		while (ev.kind == TFMT_LOST && stream.ordinal--);
		err = tfmt_writer_event(w, &ev);
		if (i % EVENTS_PER_FRAME == EVENTS_PER_FRAME - 1)
			err = tfmt_writer_flush(w, NULL, 0);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_true(!err || err == TFMT_E_IO);
	fstat(fd, &st);
	if (!err) {
		assert_int_equal(tfmt_writer_bytes(w), st.st_size);
	} else if (w) {
		assert_int_equal(tfmt_writer_errno(w), EFBIG);
		assert_int_equal(tfmt_writer_event(w, &ev), TFMT_E_IO);
		assert_int_equal(tfmt_writer_flush(w, NULL, 0), TFMT_E_IO);
		assert_int_equal(tfmt_writer_bytes(w), st.st_size);
		read_trace(path, &o);
		assert_int_equal(o.opened, 0);
		assert_false(o.differs);
		assert_int_equal(o.nr_complaints, 0);
		assert_int_equal(o.nr_events, i - EVENTS_PER_FRAME);
		assert_false(o.summary.complete);
	} else {
		assert_int_equal(st.st_size, 0);
	}
	tfmt_writer_close(w);
	close(fd);
	unlink(path);
	return err != 0;
}

static void test_full_disk(void **state)
{
	struct tfmt_header h = stream_header(6);
	struct tfmt_writer *w;
	size_t limit = 0;
	int fd;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	while (check_limit(limit))
		limit += 61;
	assert_true(limit > 1000);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), TFMT_E_IO);
	assert_int_equal(errno, ENOSPC);
	assert_null(w);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_a_trace),       cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_flip_every_bit),    cmocka_unit_test(test_garbage_between_frames),
		cmocka_unit_test(test_repeated_frames),   cmocka_unit_test(test_totals_after_damage),
		cmocka_unit_test(test_unknown_additions), cmocka_unit_test(test_unknown_event_kinds),
		cmocka_unit_test(test_hostile_frames),    cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests_name("tracefmt damage", tests, NULL, NULL);
}
