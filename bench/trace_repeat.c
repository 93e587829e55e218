/* SPDX-License-Identifier: MIT */
/*
 * A trace as long as is asked for: a real one, whose middle is repeated. Between two moments at which the same
 * blocks are live, what happens may happen any number of times: nothing else changes, and no definition is added.
 *
 *   trace_repeat IN.vtr OUT.vtr EVENTS
 *
 * Prints what writing took: events, bytes, CPU nanoseconds. Writing is all that the recorder's thread does with events:
 * it takes them from the threads' rings, merges them, keeps what a flight recorder must know of them, encodes,
 * compresses and stores. That the events are read and put into the rings is not counted: other threads do that.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

#define LEVEL 1 /* of zstd, as the recorder writes */

static struct tfmt_event *event;
static size_t nr_events, room;
static struct tfmt_writer *writer;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "trace_repeat: %s\n", what);
	exit(2);
}

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void copy_definition(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	(void)context;
	if (tfmt_writer_definition(writer, type, id, payload, len))
		fail("cannot write");
}

static void read_events(struct tfmt_reader *r)
{
	struct tfmt_event ev;
	int got;

	while ((got = tfmt_reader_next(r, &ev)) == 1) {
		if (nr_events == room) {
			room = room ? 2 * room : 1 << 16;
			event = realloc(event, room * sizeof(*event));
			if (!event)
				fail("out of memory");
		}
		event[nr_events++] = ev;
	}
	if (got < 0)
		fail("the trace is damaged");
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

/* What an event changes of what is live and of what is open; false: it may not be repeated. */
static bool change(const struct tfmt_event *ev, uint64_t *hash)
{
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
	case TFMT_TENSOR_FREE:
		*hash ^= mix(ev->address ^ mix(ev->size ^ (uint64_t)ev->device << 56));
		return ev->kind == TFMT_TENSOR_ALLOC || ev->alloc_ordinal != TFMT_NO_ORDINAL;
	case TFMT_PHASE_BEGIN:
	case TFMT_PHASE_END:
		*hash ^= mix((uint64_t)ev->thread << 32 ^ ev->address << 16 ^ ev->aux);
		return true;
	default:
		return ev->kind == TFMT_MEMORY_INFO || ev->kind == TFMT_PROCESS_INFO;
	}
}

struct moment {
	uint64_t hash;
	size_t at; /* before this event */
	size_t stretch; /* that lies in this stretch of events that may be repeated */
};

static int by_hash(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->stretch != y->stretch)
		return x->stretch < y->stretch ? -1 : 1;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* The two equal moments that lie furthest apart. */
static void find_period(size_t *from, size_t *to)
{
	struct moment *m = calloc(nr_events + 1, sizeof(*m));
	size_t first = 0, stretch = 0;
	uint64_t hash = 0;

	if (!m)
		fail("out of memory");
	for (size_t i = 0; i <= nr_events; i++) {
		m[i] = (struct moment){ hash, i, stretch };
		if (i < nr_events && !change(&event[i], &hash))
			stretch++;
	}
	qsort(m, nr_events + 1, sizeof(*m), by_hash);
	*from = *to = 0;
	for (size_t i = 1; i <= nr_events; i++) {
		if (m[i].hash != m[first].hash || m[i].stretch != m[first].stretch)
			first = i;
		if (m[i].at - m[first].at > *to - *from) {
			*from = m[first].at;
			*to = m[i].at;
		}
	}
	free(m);
	if (*from == *to)
		fail("no two moments of the trace are alike");
}

/* ---- the rings -------------------------------------------------------------------------------- */

#define RING_CAPACITY 16384u /* records, as the recorder has */
#define STAGED 8192u         /* records that wait when the drain wakes: about as many as a Llama leaves it */
#define MAX_RINGS 16u

static struct tfmt_ring_view view;
static struct tfmt_merge *merge;
static struct tfmt_ring *ring[MAX_RINGS];
static uint32_t nr_rings, nr_staged;
static uint64_t order[TFMT_NR_DEVICES + 1];
static double drained_ns;

static void open_rings(void)
{
	size_t stride = sizeof(struct tfmt_ring) + RING_CAPACITY * sizeof(struct tfmt_record);
	struct tfmt_status *s;

	view.bytes = 2 * sizeof(*s) + MAX_RINGS * stride;
	view.base = calloc(1, view.bytes);
	if (!view.base)
		fail("out of memory");
	s = (struct tfmt_status *)view.base;
	*s = (struct tfmt_status){ .magic = TFMT_RING_MAGIC,
				   .version = TFMT_RING_VERSION,
				   .definition_offset = sizeof(*s),
				   .definition_bytes = 64,
				   .ring_offset = 2 * sizeof(*s),
				   .ring_stride = stride,
				   .ring_capacity = RING_CAPACITY };
	s->check = tfmt_status_check(s);
	for (uint32_t i = 0; i < MAX_RINGS; i++)
		ring[i] = (struct tfmt_ring *)(view.base + s->ring_offset + i * stride);
	if (tfmt_merge_open(&merge, &view, NULL, NULL, 0))
		fail("cannot merge");
}

static struct tfmt_ring *ring_of(uint32_t thread)
{
	uint32_t i = 0;

	while (i < nr_rings && ring[i]->thread != thread)
		i++;
	if (i == MAX_RINGS)
		fail("too many threads");
	if (i == nr_rings) {
		ring[i]->thread = thread;
		((struct tfmt_status *)view.base)->nr_rings = ++nr_rings;
	}
	return ring[i];
}

/* Leave an event in its thread's ring, as a hook does. */
static void stage(const struct tfmt_event *ev, uint64_t later_ns)
{
	struct tfmt_ring *r = ring_of(ev->thread);
	bool tensor = ev->kind >= TFMT_TENSOR_ALLOC && ev->kind <= TFMT_TENSOR_OOM;
	struct tfmt_record *slot = &r->record[r->head % RING_CAPACITY];

	*slot = (struct tfmt_record){
		.time_ns = ev->time_ns + later_ns,
		.address = ev->address,
		.size = ev->kind == TFMT_TENSOR_FREE ? 0 : ev->size,
		.order = order[tensor ? ev->device : TFMT_NR_DEVICES]++,
		.aux = ev->aux,
		.python_stack = ev->python_stack,
		.native_stack = ev->native_stack,
		.shape = ev->kind == TFMT_TENSOR_FREE ? 0 : ev->shape,
		.stream = ev->kind == TFMT_TENSOR_FREE ? 0 : ev->stream,
		.function = ev->function,
		.kind = ev->kind,
		.device = ev->device,
		.flags = ev->flags,
	};
	slot->valid = tfmt_record_check(slot, r->head);
	r->head++;
	nr_staged++;
}

static void flush_rings(void)
{
	const uint64_t *position;
	uint32_t nr;

	if (tfmt_writer_flush(writer, merge, 0))
		fail("cannot write");
	nr = tfmt_merge_positions(merge, &position);
	for (uint32_t i = 0; i < nr; i++)
		ring[i]->tail = position[i];
}

/* What the recorder's thread does with what it finds. */
static void drain(void)
{
	struct tfmt_event ev[TFMT_WRITER_BATCH];
	double start = cpu_ns();
	uint32_t nr;

	do {
		int err;

		nr = tfmt_merge_events(merge, 0, UINT64_MAX, ev, tfmt_writer_room(writer));
		err = tfmt_writer_batch(writer, ev, nr);
		if (err < 0)
			fail("cannot write");
		if (err)
			flush_rings();
		nr_staged -= nr;
	} while (nr);
	drained_ns += cpu_ns() - start;
	if (nr_staged)
		fail("the rings' events do not come");
}

static void write_events(size_t from, size_t to, uint64_t later_ns)
{
	for (size_t i = from; i < to; i++) {
		stage(&event[i], later_ns);
		if (nr_staged == STAGED)
			drain();
	}
}

int main(int argc, char **argv)
{
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	struct tfmt_header header;
	struct tfmt_reader *r;
	size_t from, to, wanted = argc == 4 ? strtoull(argv[3], NULL, 10) : 0, nr = 0;
	uint64_t later_ns = 0, period_ns;
	double start;
	int fd;

	if (!wanted)
		fail("usage: trace_repeat IN.vtr OUT.vtr EVENTS");
	if (tfmt_reader_open(&r, argv[1], NULL))
		fail("cannot open the trace");
	header = *tfmt_reader_header(r);
	fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || tfmt_writer_open(&writer, fd, &header, LEVEL) || tfmt_writer_keep(writer))
		fail("cannot write");
	open_rings();
	tfmt_reader_hear(r, copy_definition, NULL);
	read_events(r);
	find_period(&from, &to);
	period_ns = event[to].time_ns - event[from].time_ns;
	write_events(0, from, 0);
	for (nr = from; nr + (to - from) + (nr_events - to) < wanted; nr += to - from) {
		write_events(from, to, later_ns);
		later_ns += period_ns;
	}
	write_events(from, nr_events, later_ns);
	nr += nr_events - from;
	drain();
	start = cpu_ns();
	if (tfmt_writer_flush(writer, merge, 0) || tfmt_writer_end(writer, &status))
		fail("cannot write");
	drained_ns += cpu_ns() - start;
	printf("{\"events\": %zu, \"period\": %zu, \"bytes\": %llu, \"cpu_ns\": %.0f}\n", nr, to - from,
	       (unsigned long long)tfmt_writer_bytes(writer), drained_ns);
	tfmt_merge_close(merge);
	tfmt_writer_close(writer);
	tfmt_reader_close(r);
	free(view.base);
	free(event);
	return close(fd) ? 2 : 0;
}
