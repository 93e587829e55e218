/* SPDX-License-Identifier: MIT */
/* A trace that is read while it is written: each event comes once, in order, as soon as its frame is whole. */
#include <fcntl.h>

#include "tests/unit/tracefmt_recorder.h"

#define NR_EVENTS 2000
#define PER_FRAME 100

static struct tfmt_event event_of(unsigned i)
{
	return (struct tfmt_event){
		.kind = TFMT_TENSOR_ALLOC,
		.time_ns = 1000 + i,
		.address = 4096ull * (i + 1),
		.size = 512 + i,
		.python_stack = 2 + i,
	};
}

static void record(struct recorder *rec, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		struct tfmt_event ev = event_of(i);

		push(rec, i % 2, &ev);
	}
}

static void lock(int fd, short how)
{
	struct flock all = { .l_type = how, .l_whence = SEEK_SET };

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
}

static struct tfmt_reader *follow(const char *trace)
{
	struct tfmt_reader *r;

	assert_int_equal(tfmt_reader_open(&r, trace, NULL), 0);
	tfmt_reader_follow(r, true);
	return r;
}

/* Reads all that is there; *next is the number of the next event. */
static void read_on(struct tfmt_reader *r, unsigned *next)
{
	const struct tfmt_event *ev;
	int got;

	while ((got = tfmt_reader_events(r, &ev)) != 0) {
		assert_true(got > 0);
		for (int k = 0; k < got; k++)
			assert_int_equal(ev[k].address, event_of((*next)++).address);
	}
}

static void test_frames_come_as_they_are_written(void **state)
{
	struct recorder rec;
	struct tfmt_reader *r;
	unsigned next = 0;

	(void)state;
	recorder_start(&rec);
	lock(rec.fd, F_WRLCK);
	r = follow(rec.trace);
	for (unsigned i = 0; i < NR_EVENTS; i += PER_FRAME) {
		record(&rec, i, i + PER_FRAME);
		read_on(r, &next);
		assert_int_equal(next, i);
		drain(&rec);
		read_on(r, &next);
		assert_int_equal(next, i + PER_FRAME);
		assert_true(tfmt_reader_is_waiting(r));
		assert_int_equal(tfmt_reader_summary(r)->nr_events, next);
	}
	/* What is in no frame comes when the writer is gone. */
	record(&rec, NR_EVENTS, NR_EVENTS + 7);
	read_on(r, &next);
	assert_int_equal(next, NR_EVENTS);
	lock(rec.fd, F_UNLCK);
	read_on(r, &next);
	assert_int_equal(next, NR_EVENTS + 7);
	assert_false(tfmt_reader_is_waiting(r));
	assert_int_equal(tfmt_reader_summary(r)->joined_events, 7);
	tfmt_reader_close(r);
	recorder_stop(&rec);
}

static void test_no_longer_followed_it_ends_with_the_rings(void **state)
{
	struct recorder rec;
	struct tfmt_reader *r;
	unsigned next = 0;

	(void)state;
	recorder_start(&rec);
	lock(rec.fd, F_WRLCK);
	record(&rec, 0, 50);
	drain(&rec);
	record(&rec, 50, 60);
	r = follow(rec.trace);
	read_on(r, &next);
	assert_int_equal(next, 50);
	tfmt_reader_follow(r, false);
	read_on(r, &next);
	assert_int_equal(next, 60);
	assert_int_equal(tfmt_reader_summary(r)->end, TFMT_PROCESS_RUNNING);
	tfmt_reader_close(r);
	recorder_stop(&rec);
}

/* A write may be seen in part: a frame counts when it is whole, and nothing is taken for damage. */
static void test_a_frame_is_seen_byte_by_byte(void **state)
{
	struct recorder rec;
	struct tfmt_reader *r;
	const char *copy;
	size_t len, begin;
	uint8_t *bytes;
	unsigned next = 0;
	int fd;

	(void)state;
	recorder_start(&rec);
	bytes = stream_load(rec.trace, &begin);
	free(bytes);
	for (unsigned i = 0; i < 300; i += PER_FRAME) {
		record(&rec, i, i + PER_FRAME);
		drain(&rec);
	}
	bytes = stream_load(rec.trace, &len);
	copy = strdup(stream_path("copy.vtr"));
	fd = stream_create(copy);
	lock(fd, F_WRLCK);
	assert_int_equal(write(fd, bytes, begin), begin);
	r = follow(copy);
	for (size_t i = begin; i < len; i++) {
		assert_int_equal(write(fd, bytes + i, 1), 1);
		read_on(r, &next);
		assert_int_equal(next % PER_FRAME, 0);
	}
	assert_int_equal(next, 300);
	assert_int_equal(tfmt_reader_summary(r)->nr_damaged, 0);
	assert_false(tfmt_reader_summary(r)->cut);
	tfmt_reader_close(r);
	close(fd);
	unlink(copy);
	free((char *)copy);
	free(bytes);
	recorder_stop(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_come_as_they_are_written),
		cmocka_unit_test(test_no_longer_followed_it_ends_with_the_rings),
		cmocka_unit_test(test_a_frame_is_seen_byte_by_byte),
	};

	return cmocka_run_group_tests_name("a trace that is followed", tests, NULL, NULL);
}
