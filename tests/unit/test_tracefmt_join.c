/* SPDX-License-Identifier: MIT */
/* Joining what a crash left in the rings, at every point where a crash can come; sealing; bad ring files. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/tracefmt_recorder.h"

static struct stream stream;

static void copy_file(const char *from, const char *to)
{
	size_t len;
	uint8_t *bytes = stream_load(from, &len);

	stream_store(to, bytes, len);
	free(bytes);
}

/* A copy of both files, as a crash at this moment would leave them. */
struct crash {
	const char *trace, *ring_file;
};

static void crash_take(struct crash *c, const struct recorder *rec)
{
	c->trace = strdup(stream_path("crash.vtr"));
	c->ring_file = strdup(stream_path("crash.ring"));
	copy_file(rec->trace, c->trace);
	copy_file(rec->ring_file, c->ring_file);
}

static void crash_drop(struct crash *c)
{
	unlink(c->trace);
	unlink(c->ring_file);
	free((char *)c->trace);
	free((char *)c->ring_file);
}

static struct tfmt_event truth[20000];

static void check_info(struct tfmt_reader *r, unsigned nr)
{
	const char *key, *value;
	char text[16];
	unsigned i;

	for (i = 0; i < nr; i++) {
		snprintf(text, sizeof(text), "%u", i);
		assert_true(tfmt_reader_info(r, i, &key, &value));
		assert_string_equal(key, text);
	}
	assert_false(tfmt_reader_info(r, i, &key, &value));
}

/* The trace (and its ring file) must give exactly the first nr events of the truth, and nothing amiss. */
static void check_trace(const char *path, unsigned nr, unsigned nr_infos, enum tfmt_process_end end,
			bool joined)
{
	const struct tfmt_summary *s;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	unsigned i;
	int got;

	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	for (i = 0; (got = tfmt_reader_next(r, &ev)) != 0; i++) {
		if (got < 0)
			fail_msg("at event %u of %u: %s", i, nr, tfmt_reader_message(r));
		assert_true(i < nr);
		assert_event_equal(&ev, &truth[i]);
	}
	s = tfmt_reader_summary(r);
	assert_int_equal(i, nr);
	assert_int_equal(s->end, end);
	assert_int_equal(s->lost_events, 0);
	assert_int_equal(s->nr_damaged, 0);
	assert_false(s->cut);
	assert_true(s->complete);
	if (!joined)
		assert_int_equal(s->joined_events, 0);
	check_info(r, nr_infos);
	tfmt_reader_close(r);
}

/* Sealing gives the same events, may be repeated, and may itself be killed at any byte. */
static void check_seal(const struct crash *c, unsigned nr, unsigned nr_infos)
{
	const char *trace = stream_path("seal.vtr"), *ring_file = stream_path("seal.ring");
	size_t before, len, cut;
	uint8_t *bytes = stream_load(c->trace, &before);

	free(bytes);
	copy_file(c->trace, trace);
	copy_file(c->ring_file, ring_file);
	assert_int_equal(tfmt_seal(trace, TFMT_END_SIGNAL, 9), 0);
	assert_int_equal(access(ring_file, F_OK), -1);
	check_trace(trace, nr, nr_infos, TFMT_PROCESS_SIGNAL, false);
	assert_int_equal(tfmt_seal(trace, TFMT_END_OPEN, 0), 0);
	check_trace(trace, nr, nr_infos, TFMT_PROCESS_SIGNAL, false);
	bytes = stream_load(trace, &len);
	for (cut = before; cut < len; cut += 1 + (len - before) / 4) {
		stream_store(trace, bytes, cut);
		copy_file(c->ring_file, ring_file);
		check_trace(trace, nr, nr_infos, TFMT_PROCESS_UNKNOWN, true);
		assert_int_equal(tfmt_seal(trace, TFMT_END_SIGNAL, 11), 0);
		check_trace(trace, nr, nr_infos, TFMT_PROCESS_SIGNAL, false);
	}
	free(bytes);
	unlink(trace);
	unlink(ring_file);
}

static void check_crash(const struct recorder *rec, unsigned nr, unsigned nr_infos)
{
	struct crash c;

	crash_take(&c, rec);
	check_trace(c.trace, nr, nr_infos, TFMT_PROCESS_UNKNOWN, true);
	check_seal(&c, nr, nr_infos);
	crash_drop(&c);
}

/* Some events through random rings, and a definition before some of them. */
static void record_some(struct recorder *rec, unsigned *nr, unsigned *nr_infos)
{
	unsigned count = (unsigned)stream_below(&stream, 400), i, ring;
	struct tfmt_event ev;

	for (i = 0; i < count; i++) {
		ring = (unsigned)stream_below(&stream, NR_RINGS);
		if (ring_is_full(rec, ring))
			break;
		if (!stream_below(&stream, 50)) {
			char text[16];
			uint8_t buf[64], *p;

			snprintf(text, sizeof(text), "%u", *nr_infos);
			p = tfmt_put_string(buf, text, strlen(text));
			p = tfmt_put_string(p, "", 0);
			push_definition(rec, TFMT_DEF_INFO, (*nr_infos)++, buf, (uint32_t)(p - buf));
		}
		stream_next(&stream, &ev, &truth[*nr]);
		if (ev.kind == TFMT_LOST)
			ev.kind = truth[*nr].kind = TFMT_MEMORY_INFO;
		ev.time_ns = truth[*nr].time_ns = 1000000 + *nr;
		ev.thread = truth[*nr].thread = 100 + ring;
		push(rec, ring, &ev);
		++*nr;
	}
}

static void test_crash_anywhere(void **state)
{
	struct recorder rec;
	unsigned nr = 0, nr_infos = 0, round;
	size_t before, len, cut;
	uint8_t *bytes;
	struct crash c;

	(void)state;
	recorder_start(&rec);
	stream_init(&stream, 99, 0, false);
	for (round = 0; round < 12; round++) {
		record_some(&rec, &nr, &nr_infos);
		check_crash(&rec, nr, nr_infos); /* before the write */
		drain_collect(&rec);
		bytes = stream_load(rec.trace, &before);
		free(bytes);
		drain_write(&rec);
		check_crash(&rec, nr, nr_infos); /* after the write */
		crash_take(&c, &rec);
		bytes = stream_load(c.trace, &len);
		for (cut = before; cut < len; cut += 1 + (len - before) / 50) { /* in mid-write */
			stream_store(c.trace, bytes, cut);
			check_trace(c.trace, nr, nr_infos, TFMT_PROCESS_UNKNOWN, true);
		}
		free(bytes);
		crash_drop(&c);
		drain_advance(&rec);
		check_crash(&rec, nr, nr_infos); /* after the tail */
	}
	recorder_stop(&rec);
}

/* A crash while hooks record and nothing has ever been drained, or the header alone was written. */
static void test_crash_before_first_frame(void **state)
{
	struct recorder rec;
	unsigned nr = 0, nr_infos = 0;

	(void)state;
	recorder_start(&rec);
	stream_init(&stream, 5, 0, false);
	check_crash(&rec, 0, 0);
	record_some(&rec, &nr, &nr_infos);
	check_crash(&rec, nr, nr_infos);
	recorder_stop(&rec);
}

/* ---- while it runs ---------------------------------------------------------------------------- */

/* Records and drains until killed, the lock held. */
static void record_for_ever(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct recorder rec;
	uint8_t buf[64];
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	recorder_start(&rec);
	fcntl(rec.fd, F_OFD_SETLK, &lock);
	for (i = 0;; i++) {
		struct tfmt_event e = { .kind = TFMT_TENSOR_ALLOC,
					.device = (uint8_t)(i % 2),
					.time_ns = i,
					.address = 512ull * i,
					.size = 512,
					.shape = i / 8 + 1 };
		unsigned ring = i % 7 % NR_RINGS;
		uint8_t *p;

		if (i % 8 == 0) {
			p = tfmt_put_varint(buf, 6);
			p = tfmt_put_varint(p, i);
			p = tfmt_put_varint(p, 0);
			push_definition(&rec, TFMT_DEF_SHAPE, i / 8 + 1, buf, (uint32_t)(p - buf));
		}
		if (ring_is_full(&rec, ring) || i % 300 == 0)
			drain(&rec);
		push(&rec, ring, &e);
	}
}

/* The recorder has made its files: it holds the lock. */
static bool is_running(const char *trace)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(trace, O_RDWR);
	bool running = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return running;
}

/* Each look at a trace that is being written gives a whole beginning of it: nothing twice, nothing missing.
 */
static void test_reading_while_it_runs(void **state)
{
	char trace[512], ring_file[512];
	struct tfmt_shape shape;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	uint64_t nr = 0, before = 0;
	unsigned look;
	pid_t child;
	int got;

	(void)state;
	child = fork();
	if (!child)
		record_for_ever();
	snprintf(trace, sizeof(trace), "%s/vramtrace-unit-%d-ring.vtr",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)child);
	snprintf(ring_file, sizeof(ring_file), "%.*s.ring", (int)strlen(trace) - 4, trace);
	while (!is_running(trace))
		usleep(1000);
	for (look = 0; look < 40; look++) {
		if (look == 39) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
		assert_int_equal(tfmt_reader_open(&r, trace, NULL), 0);
		for (nr = 0; (got = tfmt_reader_next(r, &ev)) > 0 && (look == 39 || nr < 200000); nr++) {
			if (ev.ordinal != nr || ev.address != 512 * nr || ev.kind != TFMT_TENSOR_ALLOC)
				fail_msg("look %u: event %lu is kind %u of address %lu", look,
					 (unsigned long)nr, ev.kind, (unsigned long)ev.address);
			assert_true(tfmt_reader_shape(r, ev.shape, &shape));
			assert_int_equal(shape.bytes, nr / 8 * 8);
		}
		if (got < 0)
			fail_msg("look %u at event %lu: %s", look, (unsigned long)nr, tfmt_reader_message(r));
		if (!got && look < 39)
			assert_int_equal(tfmt_reader_summary(r)->end, TFMT_PROCESS_RUNNING);
		tfmt_reader_close(r);
		assert_true(got || nr >= before);
		before = nr;
	}
	unlink(trace);
	unlink(ring_file);
}

/* ---- a ring file that is not as it should be -------------------------------------------------- */

struct outcome {
	uint64_t nr_events, lost;
	unsigned nr_complaints;
	bool complete;
	enum tfmt_process_end end;
	char message[512];
};

static void read_all(const char *path, struct outcome *o)
{
	struct tfmt_reader *r;
	struct tfmt_event ev;
	int got;

	memset(o, 0, sizeof(*o));
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	while ((got = tfmt_reader_next(r, &ev)) != 0) {
		if (got < 0)
			snprintf(o->message, sizeof(o->message), "%s", tfmt_reader_message(r));
		o->nr_complaints += got < 0;
	}
	o->nr_events = tfmt_reader_summary(r)->nr_events;
	o->lost = tfmt_reader_summary(r)->lost_events;
	o->complete = tfmt_reader_summary(r)->complete;
	o->end = tfmt_reader_summary(r)->end;
	tfmt_reader_close(r);
}

/* Two drained rounds and one that is only in the rings; returns the number of events in frames. */
static unsigned record_rounds(struct recorder *rec, unsigned *nr)
{
	unsigned nr_infos = 0, framed;

	stream_init(&stream, 3, 0, false);
	*nr = 0;
	do {
		record_some(rec, nr, &nr_infos);
		drain(rec);
	} while (*nr < 300);
	framed = *nr;
	while (*nr < framed + 50)
		record_some(rec, nr, &nr_infos);
	return framed;
}

static void test_no_ring_file(void **state)
{
	struct recorder rec;
	struct outcome o;
	unsigned nr, framed;

	(void)state;
	recorder_start(&rec);
	framed = record_rounds(&rec, &nr);
	unlink(rec.ring_file);
	read_all(rec.trace, &o);
	assert_int_equal(o.nr_events, framed);
	assert_int_equal(o.nr_complaints, 0);
	assert_false(o.complete);
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_OPEN, 0), 0);
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_SIGNAL, 9), 0);
	read_all(rec.trace, &o);
	assert_int_equal(o.end, TFMT_PROCESS_SIGNAL);
	recorder_stop(&rec);
}

static void test_bad_ring_files(void **state)
{
	struct recorder rec;
	struct outcome o;
	unsigned nr, framed;
	uint8_t *bytes;
	size_t len, i;

	(void)state;
	recorder_start(&rec);
	framed = record_rounds(&rec, &nr);
	bytes = stream_load(rec.ring_file, &len);
	for (i = 0; i <= len; i += 977) { /* shorter than it says */
		stream_store(rec.ring_file, bytes, i);
		read_all(rec.trace, &o);
		assert_in_range(o.nr_events, framed, nr + 100);
		assert_false(o.complete);
		assert_true(o.nr_complaints > 0);
	}
	for (i = 0; i < 4096; i++) { /* any byte of the status page */
		bytes[i] ^= 0x55;
		stream_store(rec.ring_file, bytes, len);
		read_all(rec.trace, &o);
		bytes[i] ^= 0x55;
		i += i >= 128 ? 100 : 0;
	}
	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)stream_random(&stream);
	stream_store(rec.ring_file, bytes, len);
	read_all(rec.trace, &o);
	assert_int_equal(o.nr_events, framed);
	assert_int_equal(o.nr_complaints, 1);
	assert_non_null(strstr(o.message, "ring file"));
	free(bytes);
	recorder_stop(&rec);
}

/* A ring file that does not hold all it should is not thrown away, and the trace does not look complete. */
static void test_seal_keeps_a_bad_ring_file(void **state)
{
	struct recorder rec;
	struct outcome o;
	unsigned nr;
	uint8_t *bytes;
	size_t len;

	(void)state;
	recorder_start(&rec);
	record_rounds(&rec, &nr);
	bytes = stream_load(rec.ring_file, &len);
	stream_store(rec.ring_file, bytes, len - RING_STRIDE);
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_OPEN, 0), TFMT_E_DAMAGED);
	assert_int_equal(access(rec.ring_file, F_OK), 0);
	read_all(rec.trace, &o);
	assert_false(o.complete);
	free(bytes);
	recorder_stop(&rec);
}

static void test_torn_record(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC, .time_ns = 10 };
	struct recorder rec;
	struct outcome o;
	unsigned i;

	(void)state;
	recorder_start(&rec);
	for (i = 0; i < 10; i++)
		push(&rec, 0, &ev);
	ring_of(&rec, 0)->record[6].valid = 0;
	read_all(rec.trace, &o);
	assert_int_equal(o.nr_events, 10); /* one of them a LOST */
	assert_int_equal(o.nr_complaints, 1);
	assert_false(o.complete);
	recorder_stop(&rec);
}

/* Frames that a crash of the machine lost, although their records were reused: counted by their orders. */
static void test_frames_lost_before_the_ring(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC };
	struct recorder rec;
	struct outcome o;
	unsigned i, k;
	struct stat st;

	(void)state;
	recorder_start(&rec);
	for (i = 0; i < 10; i++)
		push(&rec, 0, &ev);
	drain(&rec);
	fstat(rec.fd, &st);
	for (k = 0; k < 3; k++) {
		for (i = 0; i < CAPACITY - 10; i++)
			push(&rec, 0, &ev);
		drain(&rec);
	}
	push(&rec, 0, &ev);
	assert_int_equal(ftruncate(rec.fd, st.st_size), 0);
	read_all(rec.trace, &o);
	assert_int_equal(o.lost, 10 + 3 * (CAPACITY - 10) + 1 - 10 - CAPACITY);
	assert_int_equal(o.nr_events, 10 + 1 + CAPACITY); /* the loss itself is an event */
	recorder_stop(&rec);
}

static void test_end_states(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct recorder rec;
	struct outcome o;
	unsigned nr;

	(void)state;
	recorder_start(&rec);
	record_rounds(&rec, &nr);
	assert_int_equal(fcntl(rec.fd, F_OFD_SETLK, &lock), 0);
	read_all(rec.trace, &o);
	assert_int_equal(o.end, TFMT_PROCESS_RUNNING);
	assert_int_equal(o.nr_events, nr);
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_SIGNAL, 9), TFMT_E_IO);
	lock.l_type = F_UNLCK;
	assert_int_equal(fcntl(rec.fd, F_OFD_SETLK, &lock), 0);
	read_all(rec.trace, &o);
	assert_int_equal(o.end, TFMT_PROCESS_UNKNOWN);
	rec.status->exit_status = 3;
	rec.status->end = TFMT_END_EXIT;
	read_all(rec.trace, &o);
	assert_int_equal(o.end, TFMT_PROCESS_EXIT);
	assert_true(o.complete);
	rec.status->stop = TFMT_STOP_DISK_FULL;
	read_all(rec.trace, &o);
	assert_false(o.complete);
	rec.status->end = TFMT_END_EXEC;
	read_all(rec.trace, &o);
	assert_int_equal(o.end, TFMT_PROCESS_EXEC);
	recorder_stop(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crash_before_first_frame),
		cmocka_unit_test(test_crash_anywhere),
		cmocka_unit_test(test_reading_while_it_runs),
		cmocka_unit_test(test_no_ring_file),
		cmocka_unit_test(test_bad_ring_files),
		cmocka_unit_test(test_seal_keeps_a_bad_ring_file),
		cmocka_unit_test(test_torn_record),
		cmocka_unit_test(test_frames_lost_before_the_ring),
		cmocka_unit_test(test_end_states),
	};

	return cmocka_run_group_tests_name("tracefmt join", tests, NULL, NULL);
}
