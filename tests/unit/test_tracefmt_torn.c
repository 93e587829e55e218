/* SPDX-License-Identifier: MIT */
/*
 * Ring files after the machine went down: pages that never reached the disk, older ones in their place, any byte
 * changed. What is given out has happened; what is missing is said.
 */
#include <fcntl.h>

#include "tests/unit/tracefmt_recorder.h"

#define NR_COVERED 900 /* events in frames: the rings have been filled more than once */
#define NR_EVENTS (NR_COVERED + 120)
#define NR_USED 3      /* rings */
#define NR_STRINGS 60  /* the first half in frames */

static struct tfmt_event event_of(unsigned i)
{
	return (struct tfmt_event){
		.kind = TFMT_TENSOR_ALLOC,
		.time_ns = 1000 + i,
		.address = 4096ull * (i + 1),
		.size = 512 + i,
		.aux = 7 * i,
		.python_stack = 2 + i,
		.native_stack = 3 * i,
		.shape = i % 5,
		.stream = (uint16_t)(i % 3),
		.function = (uint16_t)(i % 7),
		.flags = i % 2 ? TFMT_FLAG_BACKWARD : 0,
	};
}

static void define_string(struct recorder *rec, unsigned id)
{
	uint8_t payload[64], *p;
	char text[40];

	snprintf(text, sizeof(text), "the name of a range, number %u", id);
	p = tfmt_put_string(payload, text, strlen(text));
	push_definition(rec, TFMT_DEF_STRING, id, payload, (uint32_t)(p - payload));
}

/* A recorder that is killed at once: most in frames, the rest in its rings. */
static void record(struct recorder *rec)
{
	recorder_start(rec);
	for (unsigned i = 0; i < NR_EVENTS; i++) {
		struct tfmt_event ev = event_of(i);

		if (i % (NR_EVENTS / NR_STRINGS) == 0)
			define_string(rec, 1 + i / (NR_EVENTS / NR_STRINGS));
		push(rec, i % NR_USED, &ev);
		if (i < NR_COVERED && i % 100 == 99)
			drain(rec);
	}
}

struct found {
	unsigned nr_events, nr_lost, nr_strings, nr_threads; /* threads: of events that have theirs */
	struct tfmt_summary summary;
	char message[512];
};

static void check_event(const struct tfmt_event *ev, unsigned *next, struct found *f)
{
	unsigned i = (unsigned)(ev->address / 4096 - 1);
	struct tfmt_event is = event_of(i);

	assert_in_range(i, *next, NR_EVENTS - 1);
	*next = i + 1;
	f->nr_events++;
	is.thread = ev->thread ? 100 + i % NR_USED : 0;
	f->nr_threads += ev->thread != 0;
	is.ordinal = ev->ordinal;
	is.order = ev->order;
	is.alloc_ordinal = ev->alloc_ordinal;
	assert_event_equal(ev, &is);
	assert_int_equal(ev->thread, is.thread);
}

/* Read all: whatever comes is what was recorded, in its order. */
static void read_found(const char *path, struct found *f)
{
	struct tfmt_reader *r;
	struct tfmt_event ev;
	unsigned next = 0;
	char text[40];
	int got;

	memset(f, 0, sizeof(*f));
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	while ((got = tfmt_reader_next(r, &ev)) != 0) {
		if (got < 0)
			snprintf(f->message, sizeof(f->message), "%s", tfmt_reader_message(r));
		else if (ev.kind == TFMT_LOST)
			f->nr_lost += (unsigned)ev.size;
		else
			check_event(&ev, &next, f);
	}
	for (unsigned id = 1; id <= NR_STRINGS; id++) {
		const char *is = tfmt_reader_string(r, id);

		snprintf(text, sizeof(text), "the name of a range, number %u", id);
		if (*is)
			assert_string_equal(is, text);
		f->nr_strings += *is != 0;
	}
	f->summary = *tfmt_reader_summary(r);
	tfmt_reader_close(r);
}

static bool is_whole(const struct found *f)
{
	return f->nr_events == NR_EVENTS && f->nr_strings == NR_STRINGS && f->nr_threads == NR_EVENTS;
}

/* Of the status page: what a reader shows as it is. */
static bool is_counter(size_t offset)
{
	return (offset >= 64 && offset < 112) || (offset >= 128 && offset < 144);
}

/* Is there anything that a reader takes? */
static bool is_used(struct recorder *rec, size_t offset)
{
	const struct tfmt_status *s = rec->status;
	size_t ring = (offset - s->ring_offset) / RING_STRIDE, at = (offset - s->ring_offset) % RING_STRIDE;

	if (offset < s->definition_offset)
		return offset < 160;
	if (offset < s->ring_offset)
		return offset - s->definition_offset >= s->definition_tail &&
		       offset - s->definition_offset < s->definition_head;
	if (at < 4096)
		return at < 144;
	at = (at - 4096) / TFMT_RECORD_BYTES;
	return (at - ring_of(rec, (unsigned)ring)->tail) % CAPACITY <=
	       ring_of(rec, (unsigned)ring)->head - ring_of(rec, (unsigned)ring)->tail;
}

static void test_any_byte(void **state)
{
	struct recorder rec;
	struct found f;

	(void)state;
	record(&rec);
	read_found(rec.trace, &f);
	assert_true(is_whole(&f) && f.summary.complete);
	assert_int_equal(f.summary.joined_events, NR_EVENTS - NR_COVERED);
	for (size_t i = 0; i < RING_FILE_BYTES; i += is_used(&rec, i) ? 1 : 97) {
		uint8_t bit = (uint8_t)(1u << (i * 7 + i / 64) % 8);

		rec.view.base[i] ^= bit;
		read_found(rec.trace, &f);
		assert_true(is_whole(&f) || (f.summary.nr_damaged && !f.summary.complete));
		assert_true(!is_counter(i) || is_whole(&f));
		rec.view.base[i] ^= bit;
	}
	recorder_stop(&rec);
}

/* The page with the newest record of a ring. */
static uint8_t *newest_page(struct recorder *rec, unsigned i)
{
	struct tfmt_ring *ring = ring_of(rec, i);

	return (uint8_t *)((uintptr_t)&ring->record[(ring->head - 1) % CAPACITY] & ~(uintptr_t)4095);
}

static unsigned nr_in_page(struct recorder *rec, unsigned i, const uint8_t *page)
{
	const struct tfmt_ring *ring = ring_of(rec, i);
	unsigned nr = 0;

	for (uint64_t p = ring->tail; p < ring->head; p++) {
		const uint8_t *at = (const uint8_t *)&ring->record[p % CAPACITY];

		nr += at >= page && at < page + 4096;
	}
	return nr;
}

static void check_torn_page(bool stale)
{
	struct recorder rec;
	unsigned nr_torn;
	struct found f;
	uint8_t *page;

	record(&rec);
	page = newest_page(&rec, 1);
	nr_torn = nr_in_page(&rec, 1, page);
	assert_in_range(nr_torn, 1, 64);
	memset(page, 0, 4096);
	for (unsigned i = 0; stale && i < 64; i++) { /* whole, but of the turn before */
		struct tfmt_record *r = &((struct tfmt_record *)page)[i];
		uint64_t slot = (uint64_t)(r - ring_of(&rec, 1)->record);

		*r = (struct tfmt_record){ .kind = TFMT_TENSOR_ALLOC, .address = 4096, .time_ns = 5000 };
		r->valid = tfmt_record_check(r, slot);
	}
	read_found(rec.trace, &f);
	assert_int_equal(f.nr_events, NR_EVENTS - nr_torn);
	assert_int_equal(f.nr_lost, nr_torn);
	assert_int_equal(f.summary.lost_events, nr_torn);
	assert_int_equal(f.summary.nr_damaged, 1);
	assert_non_null(strstr(f.message, "its ring file is torn from its byte"));
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_OPEN, 0), TFMT_E_DAMAGED);
	assert_int_equal(access(rec.ring_file, F_OK), 0);
	read_found(rec.trace, &f);
	assert_int_equal(f.nr_events, NR_EVENTS - nr_torn);
	assert_int_equal(f.summary.lost_events, nr_torn);
	recorder_stop(&rec);
}

static void test_page_that_was_not_written(void **state)
{
	(void)state;
	check_torn_page(false);
}

static void test_page_of_the_turn_before(void **state)
{
	(void)state;
	check_torn_page(true);
}

/* The page with a ring's head is as old as the records are not: they count all the same. */
static void test_old_heads(void **state)
{
	struct recorder rec;
	struct found f;

	(void)state;
	record(&rec);
	for (unsigned i = 0; i < NR_USED; i++)
		ring_of(&rec, i)->head -= 30;
	rec.status->definition_head = 0;
	read_found(rec.trace, &f);
	assert_true(is_whole(&f) && f.summary.complete);
	recorder_stop(&rec);
}

/* Of a process that still runs a head is what it says, and what is beyond it is still being written. */
static void test_a_process_that_runs(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct recorder rec;
	struct found f;

	(void)state;
	record(&rec);
	assert_int_equal(fcntl(rec.fd, F_OFD_SETLK, &lock), 0);
	ring_of(&rec, 2)->head--;
	read_found(rec.trace, &f);
	assert_int_equal(f.summary.end, TFMT_PROCESS_RUNNING);
	assert_int_equal(f.nr_events, NR_EVENTS - 1);
	assert_int_equal(f.summary.nr_damaged, 0);
	recorder_stop(&rec);
}

/* Definitions after a torn place are found again. */
static void test_torn_definitions(void **state)
{
	struct recorder rec;
	struct found f;

	(void)state;
	record(&rec);
	memset(rec.view.base + rec.status->definition_offset + rec.status->definition_tail + 100, 0xa5, 60);
	read_found(rec.trace, &f);
	assert_int_equal(f.nr_events, NR_EVENTS);
	assert_in_range(f.nr_strings, NR_STRINGS - 3, NR_STRINGS - 1);
	assert_int_equal(f.summary.nr_damaged, 1);
	assert_non_null(strstr(f.message, "definitions in 1 places"));
	recorder_stop(&rec);
}

/* Who writes into a ring of a process that records costs the events that were there, and no more. */
static void test_somebody_writes_into_a_ring(void **state)
{
	struct recorder rec;
	struct tfmt_event ev;
	struct found f;
	int got;

	(void)state;
	record(&rec);
	ring_of(&rec, 0)->record[(ring_of(&rec, 0)->tail + 5) % CAPACITY].size++;
	while ((got = tfmt_merge_next(rec.merge, 1, 0, &ev)) > 0) /* its order is missing: waits for no gap */
		assert_true(tfmt_writer_event(rec.writer, &ev) >= 0);
	assert_int_equal(got, 0);
	drain(&rec);
	assert_int_equal(tfmt_merge_nr_torn(rec.merge), 1);
	read_found(rec.trace, &f);
	assert_int_equal(f.nr_events, NR_EVENTS - 1);
	assert_int_equal(f.nr_lost, 1);
	assert_int_equal(f.summary.joined_events, 0);
	recorder_stop(&rec);
}

/* Records of version 1 have no check: only their positions are told. */
static void test_version_1(void **state)
{
	struct recorder rec;
	struct found f;

	(void)state;
	recorder_start(&rec);
	rec.status->version = 1;
	for (unsigned i = 0; i < 100; i++) {
		struct tfmt_event ev = event_of(i);
		struct tfmt_ring *ring = ring_of(&rec, 0);

		push(&rec, 0, &ev);
		ring->record[i].valid = i + 1;
	}
	for (unsigned i = 0; i < NR_RINGS; i++)
		ring_of(&rec, i)->thread_check = 0;
	ring_of(&rec, 0)->thread = 0;
	read_found(rec.trace, &f);
	assert_int_equal(f.nr_events, 100);
	assert_int_equal(f.summary.nr_damaged, 0);
	ring_of(&rec, 0)->record[40].valid = 0;
	read_found(rec.trace, &f);
	assert_int_equal(f.nr_events, 99);
	assert_int_equal(f.nr_lost, 1);
	recorder_stop(&rec);
}

/* Every bit of a record counts, and its position. */
static void test_every_bit_of_a_record(void **state)
{
	struct tfmt_record r = { 0 };
	struct stream s;

	(void)state;
	stream_init(&s, 5, 0, false);
	for (unsigned round = 0; round < 200; round++) {
		uint8_t *bytes = (uint8_t *)&r;
		uint64_t position = stream_random(&s) >> (round % 64);
		uint32_t check;

		for (unsigned i = 0; i < 60; i++)
			bytes[i] = (uint8_t)(round ? stream_random(&s) : 0);
		check = tfmt_record_check(&r, position);
		for (unsigned bit = 0; bit < 8 * 60; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_true(tfmt_record_check(&r, position) != check);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		assert_true(tfmt_record_check(&r, position + CAPACITY) != check);
		assert_true(tfmt_record_check(&r, position - CAPACITY) != check);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_byte),
		cmocka_unit_test(test_page_that_was_not_written),
		cmocka_unit_test(test_page_of_the_turn_before),
		cmocka_unit_test(test_old_heads),
		cmocka_unit_test(test_a_process_that_runs),
		cmocka_unit_test(test_torn_definitions),
		cmocka_unit_test(test_somebody_writes_into_a_ring),
		cmocka_unit_test(test_version_1),
		cmocka_unit_test(test_every_bit_of_a_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
