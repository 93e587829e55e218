/* SPDX-License-Identifier: MIT */
/* Peaks between boundaries of steps, compared. */
#include "analyzer/maxfit/steadysteps.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/command.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"

/*
 * Gradients may be accumulated over many cycles, in which nothing shows yet that there is an optimizer, nor
 * what it will take. After so many there is none to be seen.
 */
#define CYCLES_WITHOUT_UPDATE 128

/* What happened from one boundary to the next, over all devices of a process. */
struct span {
	uint64_t allocated_peak, reserved_peak, allocated, reserved;
};

/* Where a cycle or a named step began: which of them count shows at the end only. */
struct boundary {
	uint64_t ordinal;
	struct span span; /* before it */
};

struct watched {
	const struct replay_process *process;
	struct span now;
	uint64_t allocated[TFMT_NR_DEVICES + 1], reserved[TFMT_NR_DEVICES + 1];
	uint32_t nr_cycles, nr_named; /* boundaries seen */
	struct boundary *boundary;
	size_t nr_boundaries, room;
};

/* A recording, followed. */
struct steadysteps_watch {
	struct replay replay;
	struct watched *of;
	size_t nr, room;
};

static struct watched *watched_of(struct steadysteps_watch *w, const struct replay_process *p)
{
	for (size_t i = 0; i < w->nr; i++)
		if (w->of[i].process == p)
			return &w->of[i];
	w->of = heap_grow(w->of, &w->room, w->nr + 1, sizeof(*w->of));
	w->of[w->nr] = (struct watched){ .process = p };
	return &w->of[w->nr++];
}

static void add_boundary(struct watched *w, uint64_t ordinal)
{
	w->boundary = heap_grow(w->boundary, &w->room, w->nr_boundaries + 1, sizeof(*w->boundary));
	w->boundary[w->nr_boundaries++] = (struct boundary){ ordinal, w->now };
	w->now.allocated_peak = w->now.allocated;
	w->now.reserved_peak = w->now.reserved;
}

static void count(struct watched *w, const struct device_books *b, uint32_t device)
{
	w->now.allocated += b->allocated_bytes - w->allocated[device];
	w->now.reserved += b->reserved_bytes - w->reserved[device];
	w->allocated[device] = b->allocated_bytes;
	w->reserved[device] = b->reserved_bytes;
	if (w->now.allocated > w->now.allocated_peak)
		w->now.allocated_peak = w->now.allocated;
	if (w->now.reserved > w->now.reserved_peak)
		w->now.reserved_peak = w->now.reserved;
}

static void observe(void *context, const struct replay_process *p, const struct tfmt_event *ev,
		    uint64_t time_ns)
{
	const struct steps *s = &p->lives->steps;
	struct watched *w = watched_of(context, p);

	(void)time_ns;
	if (s->cycles.nr_bounds != w->nr_cycles)
		add_boundary(w, s->cycles.ordinal[s->cycles.nr_bounds - 1]);
	if (s->named.nr_bounds != w->nr_named)
		add_boundary(w, s->named.ordinal[s->named.nr_bounds - 1]);
	w->nr_cycles = s->cycles.nr_bounds;
	w->nr_named = s->named.nr_bounds;
	if (ev->device <= TFMT_NR_DEVICES)
		count(w, books_device(p->books, ev->device), ev->device);
}

/* All between two boundaries that count. */
static struct span span_between(const struct watched *w, uint64_t after, uint64_t upto)
{
	struct span all = { 0 };

	for (size_t i = 0; i < w->nr_boundaries; i++) {
		const struct span *s = &w->boundary[i].span;

		if (w->boundary[i].ordinal <= after || w->boundary[i].ordinal > upto)
			continue;
		all.allocated = s->allocated;
		all.reserved = s->reserved;
		if (s->allocated_peak > all.allocated_peak)
			all.allocated_peak = s->allocated_peak;
		if (s->reserved_peak > all.reserved_peak)
			all.reserved_peak = s->reserved_peak;
	}
	return all;
}

static struct steadysteps steps_until(const struct watched *w, const struct steps *s)
{
	const struct steps_bounds *b = steps_bounds(s);
	uint32_t nr = b->nr_bounds;
	struct steadysteps told = { .nr_steps = nr };
	struct span last, before;

	/* Of named ones each bound begins a step, the first, too; of others the first lies before all bounds.
	 */
	if (b == &s->named)
		told.nr_steps = nr ? nr - 1 : 0;
	if (b == &s->cycles && nr < CYCLES_WITHOUT_UPDATE)
		told.nr_steps = 0;
	if (told.nr_steps < 3)
		return told;
	last = span_between(w, b->ordinal[nr - 2], b->ordinal[nr - 1]);
	before = span_between(w, b->ordinal[nr - 3], b->ordinal[nr - 2]);
	told.is_steady = !memcmp(&last, &before, sizeof(last));
	return told;
}

static struct steadysteps steps_of_process(const struct watched *w)
{
	struct steadysteps told;
	struct steps now;

	steps_now(&now, &w->process->lives->steps);
	told = steps_until(w, &now);
	steps_now_release(&now);
	return told;
}

static bool has_tensors(const struct replay *m, const struct replay_process *p)
{
	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].process == p && m->device[i].has_tensors)
			return true;
	return false;
}

static void add_up(struct steadysteps *s, const struct steadysteps_watch *w)
{
	bool any = false;

	*s = (struct steadysteps){ .nr_steps = UINT32_MAX, .is_steady = true };
	for (size_t i = 0; i < w->nr; i++) {
		struct steadysteps one;

		if (!has_tensors(&w->replay, w->of[i].process))
			continue;
		one = steps_of_process(&w->of[i]);
		any = true;
		s->is_steady &= one.is_steady;
		if (one.nr_steps < s->nr_steps)
			s->nr_steps = one.nr_steps;
	}
	if (!any)
		*s = (struct steadysteps){ 0 };
}

static void close_recording(struct steadysteps_watch *w)
{
	for (size_t i = 0; i < w->nr; i++)
		free(w->of[i].boundary);
	w->nr = 0;
	replay_release(&w->replay);
}

static int open_recording(struct steadysteps_watch *w, const char *path)
{
	struct replay_options follow = { .observe = observe, .ctx = w, .lives = true, .quiet = true, .follow = true };
	int ret = rules_load();

	return ret ? ret : replay_open(&w->replay, path, &follow);
}

struct steadysteps_watch *steadysteps_watch_new(void)
{
	return heap_alloc(1, sizeof(struct steadysteps_watch));
}

int steadysteps_look(struct steadysteps_watch *w, struct steadysteps *s, const char *path)
{
	int ret = 0;

	/* Another process has begun: what was read so far is read once more. */
	if (w->replay.nr_processes && replay_is_outgrown(&w->replay))
		close_recording(w);
	if (!w->replay.nr_processes)
		ret = open_recording(w, path);
	*s = (struct steadysteps){ 0 };
	if (ret) {
		close_recording(w);
	} else {
		replay_advance(&w->replay);
		add_up(s, w);
	}
	return ret;
}

void steadysteps_watch_free(struct steadysteps_watch *w)
{
	if (!w)
		return;
	close_recording(w);
	free(w->of);
	free(w);
}
