/* SPDX-License-Identifier: MIT */
/* Many rings to one stream: domains without gaps, clock order between them, gaps, definitions, threads. */
#include <pthread.h>
#include <sched.h>

#include "tests/unit/tracefmt_recorder.h"

static struct stream stream;

static void test_merge_by_domain_and_clock(void **state)
{
	struct recorder rec;
	struct tfmt_event ev, want, last = { 0 };
	uint64_t next[TFMT_NR_DEVICES + 1] = { 0 }, nr = 0;
	unsigned i;

	(void)state;
	recorder_start(&rec);
	stream_init(&stream, 7, 0, false);
	for (i = 0; i < 5000; i++) {
		do {
			stream_next(&stream, &ev, &want);
		} while (ev.kind == TFMT_LOST);
		push(&rec, (unsigned)stream_below(&stream, NR_RINGS), &ev);
		if (i % 128 != 127)
			continue;
		while (tfmt_merge_next(rec.merge, 1, 1000, &ev) == 1) {
			assert_int_equal(ev.order, next[domain_of(&ev)]++);
			assert_true(ev.time_ns >= last.time_ns);
			assert_true(ev.thread >= 100 && ev.thread < 100 + NR_RINGS);
			last = ev;
			nr++;
		}
		assert_int_equal(nr, i + 1);
		drain_advance(&rec);
	}
	recorder_stop(&rec);
}

static void test_gap(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC, .time_ns = 10, .device = 2 }, got;
	struct tfmt_event driver = { .kind = TFMT_DRIVER_ALLOC, .time_ns = 5 };
	struct recorder rec;

	(void)state;
	recorder_start(&rec);
	push_ordered(&rec, 0, &ev, 3); /* 0, 1 and 2 are missing */
	push_ordered(&rec, 1, &driver, 0);
	driver.time_ns = 20;
	push_ordered(&rec, 1, &driver, 1);
	assert_int_equal(tfmt_merge_next(rec.merge, 1000, 100, &got), 1);
	assert_int_equal(got.kind, TFMT_DRIVER_ALLOC);
	assert_int_equal(tfmt_merge_next(rec.merge, 1000, 100, &got), 0);
	push_ordered(&rec, 2, &ev, 0); /* late, but in time */
	assert_int_equal(tfmt_merge_next(rec.merge, 1050, 100, &got), 1);
	assert_int_equal(got.order, 0);
	assert_int_equal(got.thread, 102);
	assert_int_equal(tfmt_merge_next(rec.merge, 1060, 100, &got), 0);
	assert_int_equal(tfmt_merge_next(rec.merge, 1159, 100, &got), 0);
	assert_int_equal(tfmt_merge_next(rec.merge, 1160, 100, &got), 1);
	assert_int_equal(got.kind, TFMT_TENSOR_ALLOC);
	assert_int_equal(got.order, 3); /* the stream goes on without 1 and 2 */
	push_ordered(&rec, 2, &ev, 1);
	assert_int_equal(tfmt_merge_next(rec.merge, 1170, 100, &got), 1);
	assert_int_equal(got.kind, TFMT_DRIVER_ALLOC);
	assert_int_equal(tfmt_merge_next(rec.merge, 1170, 100, &got), 1);
	assert_int_equal(got.kind, TFMT_TENSOR_ALLOC);
	assert_int_equal(got.order, 1); /* late, and not lost */
	ev.time_ns = 30;
	push_ordered(&rec, 0, &ev, 4);
	assert_int_equal(tfmt_merge_next(rec.merge, 1170, 100, &got), 1);
	assert_int_equal(got.order, 4);
	push_ordered(&rec, 2, &ev, 2);
	assert_int_equal(tfmt_merge_next(rec.merge, 1170, 100, &got), 1);
	assert_int_equal(got.order, 2);
	assert_int_equal(tfmt_merge_next(rec.merge, 1170, 100, &got), 0);
	recorder_stop(&rec);
}

/* With a ring about to run over, waiting for a gap would lose what finds no room. */
static void test_gap_under_pressure(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC, .time_ns = 10 }, got;
	const uint64_t second = 1000000000;
	struct recorder rec;
	unsigned i;

	(void)state;
	recorder_start(&rec);
	for (i = 0; i < CAPACITY * 3 / 4 - 1; i++)
		push_ordered(&rec, 0, &ev, i + 1);
	assert_int_equal(tfmt_merge_next(rec.merge, 1000, second, &got), 0);
	assert_int_equal(tfmt_merge_next(rec.merge, 1000 + second / 10, second, &got), 0);
	push_ordered(&rec, 0, &ev, i + 1);
	assert_int_equal(tfmt_merge_next(rec.merge, 1000 + second / 10, second, &got), 1);
	assert_int_equal(got.order, 1);
	recorder_stop(&rec);
}

/* Records that a drain has passed on and their producer has written over are counted, not searched. */
static void test_overwritten_records_are_lost(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_DRIVER_ALLOC, .time_ns = 10 }, got;
	struct tfmt_merge *late;
	struct recorder rec;
	unsigned i;

	(void)state;
	recorder_start(&rec);
	for (i = 0; i < CAPACITY + 3; i++) {
		push_ordered(&rec, 0, &ev, i);
		assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 1);
		drain_advance(&rec);
	}
	assert_int_equal(tfmt_merge_open(&late, &rec.view, NULL, &(uint64_t){ 1 }, 1), 0);
	assert_int_equal(tfmt_merge_next(late, 0, 0, &got), 1);
	assert_int_equal(got.kind, TFMT_LOST);
	assert_int_equal(got.size, 2);
	assert_int_equal(got.time_ns, ev.time_ns);
	for (i = 3; i < CAPACITY + 3; i++) {
		assert_int_equal(tfmt_merge_next(late, 0, 0, &got), 1);
		assert_int_equal(got.order, i);
	}
	assert_int_equal(tfmt_merge_next(late, 0, 0, &got), 0);
	tfmt_merge_close(late);
	recorder_stop(&rec);
}

/* A clock read before the order was taken: the missing record lies after a later one of another domain. */
static void test_hidden_record_is_not_lost(void **state)
{
	struct tfmt_event tensor = { .kind = TFMT_TENSOR_ALLOC, .time_ns = 50 }, got;
	struct tfmt_event driver = { .kind = TFMT_DRIVER_ALLOC, .time_ns = 40 };
	static const uint8_t want[] = { TFMT_TENSOR_ALLOC, TFMT_DRIVER_ALLOC, TFMT_DRIVER_ALLOC };
	struct recorder rec;
	unsigned i;

	(void)state;
	recorder_start(&rec);
	push_ordered(&rec, 0, &driver, 1);
	push_ordered(&rec, 1, &tensor, 0);
	driver.time_ns = 60;
	push_ordered(&rec, 1, &driver, 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 1);
		assert_int_equal(got.kind, want[i]);
	}
	assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 0);
	recorder_stop(&rec);
}

/* A ring passes from thread to thread: each record has its own, from wherever one begins to read. */
static void test_shared_ring(void **state)
{
	static const uint32_t thread[] = { 100, 100, 200, 200, 100, 300 };
	struct tfmt_event ev = { .kind = TFMT_DRIVER_ALLOC }, got;
	uint64_t from[NR_RINGS] = { 0 }, order[TFMT_NR_DEVICES + 1] = { 0 };
	uint64_t position[sizeof(thread) / sizeof(*thread)];
	struct recorder rec;

	(void)state;
	recorder_start(&rec);
	for (unsigned i = 0; i < 6; i++) {
		if (i && thread[i] != thread[i - 1])
			push_thread(&rec, 0, thread[i]);
		position[i] = ring_of(&rec, 0)->head;
		ev.time_ns = i + 1;
		push(&rec, 0, &ev);
		if (i % 2) { /* what is read meanwhile changes nothing */
			assert_int_equal(tfmt_merge_next(rec.merge, 1, 1000, &got), 1);
			assert_int_equal(got.thread, thread[i - 1]);
			assert_int_equal(tfmt_merge_next(rec.merge, 1, 1000, &got), 1);
			assert_int_equal(got.thread, thread[i]);
			assert_int_equal(got.kind, TFMT_DRIVER_ALLOC);
		}
	}
	assert_int_equal(tfmt_merge_next(rec.merge, 1, 1000, &got), 0);
	for (unsigned begin = 0; begin < 6; begin++) {
		struct tfmt_merge *m;

		from[0] = position[begin];
		order[TFMT_NR_DEVICES] = begin;
		assert_int_equal(tfmt_merge_open(&m, &rec.view, order, from, NR_RINGS), 0);
		for (unsigned i = begin; i < 6; i++) {
			assert_int_equal(tfmt_merge_next(m, 1, 0, &got), 1);
			assert_int_equal(got.time_ns, i + 1);
			assert_int_equal(got.thread, thread[i]);
		}
		assert_int_equal(tfmt_merge_next(m, 1, 0, &got), 0);
		tfmt_merge_close(m);
	}
	recorder_stop(&rec);
}

static void test_ties(void **state)
{
	struct tfmt_event ev = { .time_ns = 10 }, got;
	struct recorder rec;

	(void)state;
	recorder_start(&rec);
	ev.kind = TFMT_TENSOR_ALLOC;
	push(&rec, 0, &ev);
	ev.kind = TFMT_DRIVER_ALLOC;
	push(&rec, 1, &ev);
	ev.kind = TFMT_DRIVER_FREE;
	ev.time_ns = 20;
	push(&rec, 1, &ev);
	ev.kind = TFMT_TENSOR_FREE;
	push(&rec, 2, &ev);
	assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 1);
	assert_int_equal(got.kind, TFMT_DRIVER_ALLOC);
	assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 1);
	assert_int_equal(got.kind, TFMT_TENSOR_ALLOC);
	assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 1);
	assert_int_equal(got.kind, TFMT_TENSOR_FREE);
	assert_int_equal(tfmt_merge_next(rec.merge, 0, 0, &got), 1);
	assert_int_equal(got.kind, TFMT_DRIVER_FREE);
	recorder_stop(&rec);
}

static void test_definition_ring(void **state)
{
	static const uint32_t length[] = { 0, 1, 7, 8, 9, 2000, 2048, 2049, 7000 };
	uint8_t bytes[8192];
	const uint8_t *payload;
	uint32_t type, id, i;
	struct recorder rec;
	size_t len;

	(void)state;
	recorder_start(&rec);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 3 + (i >> 8));
	for (i = 0; i < 500; i++) {
		uint32_t n = length[i % 9];

		push_definition(&rec, i % 7, i, bytes + i, n);
		assert_int_equal(tfmt_merge_definition(rec.merge, &rec.definition_position, &type, &id,
						       &payload, &len),
				 1);
		assert_int_equal(type, i % 7);
		assert_int_equal(id, i);
		assert_int_equal(len, n);
		assert_memory_equal(payload, bytes + i, n);
		assert_int_equal(rec.definition_position, rec.status->definition_head);
	}
	assert_int_equal(
		tfmt_merge_definition(rec.merge, &rec.definition_position, &type, &id, &payload, &len), 0);
	memset(rec.view.base + rec.status->definition_offset, 0xff, DEFINITION_BYTES);
	rec.status->definition_head += 64;
	assert_int_equal(
		tfmt_merge_definition(rec.merge, &rec.definition_position, &type, &id, &payload, &len),
		TFMT_E_DAMAGED);
	recorder_stop(&rec);
}

/* ---- threads ----------------------------------------------------------------------------------- */

#define NR_PRODUCERS 4
#define EVENTS_PER_PRODUCER 50000

struct producer {
	pthread_t thread;
	struct recorder *rec;
	unsigned ring;
};

static pthread_mutex_t allocator = PTHREAD_MUTEX_INITIALIZER;
static uint64_t driver_order;
static unsigned producers_left;

static void push_when_there_is_room(struct recorder *rec, unsigned i, const struct tfmt_event *ev,
				    uint64_t order)
{
	while (ring_is_full(rec, i))
		sched_yield();
	push_ordered(rec, i, ev, order);
}

/* Tensor events under the allocator's mutex, driver events with an order taken before they are published. */
static void *produce(void *arg)
{
	struct producer *p = arg;
	unsigned i;

	for (i = 0; i < EVENTS_PER_PRODUCER; i++) {
		struct tfmt_event ev = { .time_ns = __atomic_load_n(&driver_order, __ATOMIC_RELAXED) };

		if (i % 16 == 0) {
			ev.kind = TFMT_DRIVER_ALLOC;
			push_when_there_is_room(p->rec, p->ring, &ev,
						__atomic_fetch_add(&driver_order, 1, __ATOMIC_RELAXED));
			continue;
		}
		ev.kind = TFMT_TENSOR_ALLOC;
		pthread_mutex_lock(&allocator);
		push_when_there_is_room(p->rec, p->ring, &ev, p->rec->order[0]++);
		pthread_mutex_unlock(&allocator);
	}
	__atomic_fetch_sub(&producers_left, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void test_threads_lose_nothing(void **state)
{
	struct producer producer[NR_PRODUCERS];
	uint64_t next[2] = { 0 }, nr = 0;
	struct recorder rec;
	struct tfmt_event ev;
	unsigned i;
	bool last;

	(void)state;
	recorder_start(&rec);
	producers_left = NR_PRODUCERS;
	driver_order = 0;
	for (i = 0; i < NR_PRODUCERS; i++) {
		producer[i] = (struct producer){ .rec = &rec, .ring = i };
		assert_int_equal(pthread_create(&producer[i].thread, NULL, produce, &producer[i]), 0);
	}
	do {
		last = !__atomic_load_n(&producers_left, __ATOMIC_ACQUIRE);
		while (tfmt_merge_next(rec.merge, 1, last ? 0 : 1000000000, &ev) == 1) {
			assert_int_not_equal(ev.kind, TFMT_LOST);
			assert_int_equal(ev.order, next[ev.kind == TFMT_DRIVER_ALLOC]++);
			nr++;
		}
		drain_advance(&rec);
		sched_yield();
	} while (!last);
	for (i = 0; i < NR_PRODUCERS; i++)
		pthread_join(producer[i].thread, NULL);
	assert_int_equal(nr, NR_PRODUCERS * EVENTS_PER_PRODUCER);
	recorder_stop(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge_by_domain_and_clock),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_gap_under_pressure),
		cmocka_unit_test(test_overwritten_records_are_lost),
		cmocka_unit_test(test_hidden_record_is_not_lost),
		cmocka_unit_test(test_shared_ring),
		cmocka_unit_test(test_ties),
		cmocka_unit_test(test_definition_ring),
		cmocka_unit_test(test_threads_lose_nothing),
	};

	return cmocka_run_group_tests_name("tracefmt merge", tests, NULL, NULL);
}
