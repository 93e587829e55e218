/* SPDX-License-Identifier: MIT */
/*
 * A recording that is followed while it is written: after each piece its books are those of a replay that reads all of it
 * anew.
 */
#include "synthetic.h"

#include "analyzer/command.h"
#include "analyzer/replay/replay.h"

#define NR_PIECES 40
#define PER_PIECE 60

static const struct replay_options whole = { .quiet = true, .lives = true };
static const struct replay_options followed = { .quiet = true, .lives = true, .follow = true };

static void lock(int fd, short how)
{
	struct flock all = { .l_type = how, .l_whence = SEEK_SET };

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
}

static void pass(struct synthetic *s, uint8_t kind)
{
	synthetic_event(s, kind, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
}

/* Tensors come and go, on two devices; some stay. In the middle of a piece a backward pass ends, and another cycle begins. */
static void write_piece(struct synthetic *s, unsigned piece)
{
	for (unsigned i = 0; i < PER_PIECE; i++) {
		unsigned n = piece * PER_PIECE + i;

		if (i == PER_PIECE / 3)
			pass(s, TFMT_PHASE_BEGIN);
		if (i == PER_PIECE / 2)
			pass(s, TFMT_PHASE_END);
		s->flags = i < PER_PIECE / 3 ? TFMT_FLAG_FORWARD : i < PER_PIECE / 2 ? TFMT_FLAG_BACKWARD : 0;
		synthetic_event(s, TFMT_TENSOR_ALLOC, n % 2, 0x100000ull * (n + 1), 512 * (1 + n % 13), 0);
		if (n % 3)
			synthetic_event(s, TFMT_TENSOR_FREE, n % 2, 0x100000ull * (n + 1), 0, 0);
		s->flags = 0;
	}
	synthetic_flush(s);
}

static void assert_same(const struct replay *a, const struct replay *b)
{
	assert_int_equal(a->nr_processes, b->nr_processes);
	assert_int_equal(a->nr_devices, b->nr_devices);
	assert_int_equal(a->nr_events, b->nr_events);
	assert_int_equal(a->lost_events, b->lost_events);
	assert_int_equal(a->duration_ns, b->duration_ns);
	for (size_t i = 0; i < a->nr_devices; i++) {
		const struct device_books *x = a->device[i].books, *y = b->device[i].books;

		assert_int_equal(a->device[i].ordinal, b->device[i].ordinal);
		assert_int_equal(x->allocated_bytes, y->allocated_bytes);
		assert_int_equal(x->allocated_peak_bytes, y->allocated_peak_bytes);
		assert_int_equal(x->reserved_bytes, y->reserved_bytes);
		assert_int_equal(x->tensor_allocs, y->tensor_allocs);
		assert_int_equal(x->tensor_frees, y->tensor_frees);
	}
	for (size_t i = 0; i < a->nr_processes; i++) {
		const struct books *x = a->process[i].books, *y = b->process[i].books;

		assert_int_equal(books_nr_groups(x), books_nr_groups(y));
		for (uint32_t k = 0; k < books_nr_groups(x); k++) {
			assert_int_equal(books_group(x, k)->live.bytes, books_group(y, k)->live.bytes);
			assert_int_equal(books_group(x, k)->live.blocks, books_group(y, k)->live.blocks);
		}
	}
}

/* Steps are found in retrospect: of what goes on, by steps_now(). */
static void assert_same_steps(const struct replay_process *p, const struct replay_process *whole_one)
{
	const struct steps_bounds *is, *wanted = steps_bounds(&whole_one->lives->steps);
	struct steps now;

	steps_now(&now, &p->lives->steps);
	is = steps_bounds(&now);
	assert_int_equal(is->nr_bounds, wanted->nr_bounds);
	assert_int_equal(steps_count(&now), steps_count(&whole_one->lives->steps));
	for (uint32_t i = 0; i < is->nr_bounds; i++)
		assert_int_equal(is->ordinal[i], wanted->ordinal[i]);
	steps_now_release(&now);
}

static void assert_as_read_anew(const struct replay *m)
{
	struct replay anew = REPLAY_INIT;

	assert_int_equal(system("rm -rf copy.vtr && cp -r job.vtr copy.vtr"), 0);
	assert_int_equal(replay_load(&anew, "copy.vtr", &whole), 0);
	assert_same(m, &anew);
	for (size_t i = 0; i < m->nr_processes; i++)
		assert_same_steps(&m->process[i], &anew.process[i]);
	replay_release(&anew);
}

static void books_are_those_of_the_whole_after_each_piece(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	struct replay m = REPLAY_INIT;
	struct synthetic s;

	(void)state;
	mkdir("job.vtr", 0700);
	synthetic_open(&s, "job.vtr/a.1.1.vtr", &header);
	lock(s.fd, F_WRLCK);
	write_piece(&s, 0);
	assert_int_equal(replay_open(&m, "job.vtr", &followed), 0);
	for (unsigned piece = 1; piece < NR_PIECES; piece++) {
		replay_advance(&m);
		assert_false(replay_is_over(&m));
		assert_as_read_anew(&m);
		write_piece(&s, piece);
	}
	synthetic_close(&s, 0);
	replay_advance(&m);
	assert_true(replay_is_over(&m));
	assert_true(m.complete);
	assert_int_equal(steps_count(&m.process[0].lives->steps), NR_PIECES);
	assert_as_read_anew(&m);
	replay_advance(&m); /* nothing more */
	assert_as_read_anew(&m);
	replay_release(&m);
}

static void another_process_outgrows_it(void **state)
{
	struct tfmt_header one = synthetic_header(1), two = synthetic_header(2);
	struct replay m = REPLAY_INIT;
	struct synthetic s, t;

	(void)state;
	assert_int_equal(system("rm -rf job.vtr"), 0);
	mkdir("job.vtr", 0700);
	synthetic_open(&s, "job.vtr/a.1.1.vtr", &one);
	lock(s.fd, F_WRLCK);
	write_piece(&s, 0);
	assert_int_equal(replay_open(&m, "job.vtr", &followed), 0);
	replay_advance(&m);
	assert_false(replay_is_outgrown(&m));
	synthetic_open(&t, "job.vtr/a.2.1.vtr", &two);
	write_piece(&t, 0);
	assert_true(replay_is_outgrown(&m));
	replay_release(&m);
	synthetic_close(&s, 0);
	synthetic_close(&t, 0);
}

/* A process that is killed is over: nobody holds its trace any more. */
static void a_killed_process_is_over(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	struct replay m = REPLAY_INIT;
	struct synthetic s;

	(void)state;
	assert_int_equal(system("rm -rf job.vtr"), 0);
	mkdir("job.vtr", 0700);
	synthetic_open(&s, "job.vtr/a.1.1.vtr", &header);
	lock(s.fd, F_WRLCK);
	write_piece(&s, 0);
	assert_int_equal(replay_open(&m, "job.vtr", &followed), 0);
	replay_advance(&m);
	assert_false(replay_is_over(&m));
	synthetic_close(&s, 256);
	replay_advance(&m);
	assert_true(replay_is_over(&m));
	assert_as_read_anew(&m);
	replay_release(&m);
}

static void what_is_no_recording_is_not_followed(void **state)
{
	struct replay m = REPLAY_INIT;

	(void)state;
	assert_int_equal(replay_open(&m, "nothing.vtr", &followed), CMD_TROUBLE);
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(books_are_those_of_the_whole_after_each_piece),
		cmocka_unit_test(another_process_outgrows_it),
		cmocka_unit_test(a_killed_process_is_over),
		cmocka_unit_test(what_is_no_recording_is_not_followed),
	};

	return cmocka_run_group_tests_name("a recording that is followed", tests, synthetic_enter, synthetic_leave);
}
