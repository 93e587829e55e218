/* SPDX-License-Identifier: MIT */
/* Peaks between boundaries of steps, compared. */
#include "analyzer/maxfit/steadysteps.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/command.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/message.h"

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

struct watch {
	struct watched *of;
	size_t nr;
	bool failed; /* out of memory ourselves */
};

static struct watched *watched_of(struct watch *w, const struct replay_process *p)
{
	struct watched *grown;

	for (size_t i = 0; i < w->nr; i++)
		if (w->of[i].process == p)
			return &w->of[i];
	grown = realloc(w->of, (w->nr + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	w->of = grown;
	w->of[w->nr] = (struct watched){ .process = p };
	return &w->of[w->nr++];
}

static bool add_boundary(struct watched *w, uint64_t ordinal)
{
	struct boundary *grown;

	if (w->nr_boundaries == w->room) {
		grown = realloc(w->boundary, (2 * w->room + 64) * sizeof(*grown));
		if (!grown)
			return false;
		w->boundary = grown;
		w->room = 2 * w->room + 64;
	}
	w->boundary[w->nr_boundaries++] = (struct boundary){ ordinal, w->now };
	w->now.allocated_peak = w->now.allocated;
	w->now.reserved_peak = w->now.reserved;
	return true;
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
	struct watch *watch = context;
	struct watched *w = watched_of(watch, p);

	(void)time_ns;
	if (!w) {
		watch->failed = true;
		return;
	}
	if (s->cycles.nr_bounds != w->nr_cycles)
		watch->failed |= !add_boundary(w, s->cycles.ordinal[s->cycles.nr_bounds - 1]);
	if (s->named.nr_bounds != w->nr_named)
		watch->failed |= !add_boundary(w, s->named.ordinal[s->named.nr_bounds - 1]);
	w->nr_cycles = s->cycles.nr_bounds;
	w->nr_named = s->named.nr_bounds;
	if (ev->device <= TFMT_NR_DEVICES)
		count(w, &p->books.device[ev->device], ev->device);
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

static struct steadysteps steps_of_process(const struct watched *w)
{
	const struct steps *s = &w->process->lives->steps;
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

static bool has_tensors(const struct replay *m, const struct replay_process *p)
{
	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].process == p && m->device[i].has_tensors)
			return true;
	return false;
}

static void add_up(struct steadysteps *s, const struct replay *m, const struct watch *w)
{
	bool any = false;

	*s = (struct steadysteps){ .nr_steps = UINT32_MAX, .is_steady = true };
	for (size_t i = 0; i < w->nr; i++) {
		struct steadysteps one;

		if (!has_tensors(m, w->of[i].process))
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

int steadysteps_look(struct steadysteps *s, const char *recording)
{
	struct watch w = { 0 };
	struct replay_options load = { .observe = observe, .ctx = &w, .lives = true, .quiet = true };
	struct replay m = REPLAY_INIT;
	int ret = rules_load();

	if (!ret)
		ret = replay_load(&m, recording, &load);
	*s = (struct steadysteps){ 0 };
	if (!ret && w.failed)
		ret = message_error("cannot follow the steps of '%s': out of memory", recording);
	if (!ret)
		add_up(s, &m, &w);
	for (size_t i = 0; i < w.nr; i++)
		free(w.of[i].boundary);
	free(w.of);
	replay_release(&m);
	return ret;
}
