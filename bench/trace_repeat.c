/* SPDX-License-Identifier: MIT */
/*
 * A trace as long as is asked for: a real one, whose middle is repeated. Between two moments at which the same
 * blocks are live, what happens may happen any number of times: nothing else changes, and no definition is added.
 *
 *   trace_repeat IN.vtr OUT.vtr EVENTS
 *
 * Prints what writing took: events, bytes, CPU nanoseconds.
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

static void write_events(size_t from, size_t to, uint64_t later_ns)
{
	struct tfmt_event ev[TFMT_WRITER_AHEAD];

	/* As the recorder does: some events at a time, and the frame is written behind them. */
	for (size_t i = from; i < to; i += TFMT_WRITER_AHEAD) {
		uint32_t nr = to - i < TFMT_WRITER_AHEAD ? (uint32_t)(to - i) : TFMT_WRITER_AHEAD;
		int err = 0;

		memcpy(ev, &event[i], nr * sizeof(*ev));
		tfmt_writer_expect(writer, ev, nr);
		for (uint32_t k = 0; k < nr && err >= 0; k++) {
			ev[k].time_ns += later_ns;
			err |= tfmt_writer_event(writer, &ev[k]);
		}
		if (err == 1)
			err = tfmt_writer_flush(writer, NULL, 0);
		if (err)
			fail("cannot write");
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
	fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || tfmt_writer_open(&writer, fd, &header, LEVEL))
		fail("cannot write");
	tfmt_reader_hear(r, copy_definition, NULL);
	read_events(r);
	find_period(&from, &to);
	period_ns = event[to].time_ns - event[from].time_ns;
	start = cpu_ns();
	write_events(0, from, 0);
	for (nr = from; nr + (to - from) + (nr_events - to) < wanted; nr += to - from) {
		write_events(from, to, later_ns);
		later_ns += period_ns;
	}
	write_events(from, nr_events, later_ns);
	nr += nr_events - from;
	if (tfmt_writer_end(writer, &status))
		fail("cannot write");
	printf("{\"events\": %zu, \"period\": %zu, \"bytes\": %llu, \"cpu_ns\": %.0f}\n", nr, to - from,
	       (unsigned long long)tfmt_writer_bytes(writer), cpu_ns() - start);
	tfmt_writer_close(writer);
	tfmt_reader_close(r);
	free(event);
	return close(fd) ? 2 : 0;
}
