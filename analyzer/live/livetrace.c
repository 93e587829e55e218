/* SPDX-License-Identifier: MIT */
/* Following one trace: what each event changes is noted as it is read. */
#include "analyzer/live/livetrace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/base/heap.h"
#include "analyzer/holders/timeline.h"
#include "analyzer/recording/censusfiles.h"

struct replay_process *livetrace_process(const struct livetrace *t)
{
	return t->replay.process;
}

uint64_t livetrace_used_bytes(const struct books *books, uint32_t device)
{
	const struct residual_figures *r = books_residual(books, device);
	int64_t used = (int64_t)(r->last.used + r->ledger - r->last.ledger);

	if (!r->has_last || used < 0)
		return books_device(books, device)->driver_bytes;
	return (uint64_t)used;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void raise(struct livemost *to, const struct livemost *by)
{
	to->allocated = by->allocated > to->allocated ? by->allocated : to->allocated;
	to->reserved = by->reserved > to->reserved ? by->reserved : to->reserved;
	to->used = by->used > to->used ? by->used : to->used;
}

/* Intervals up to this one, each beginning with what was held at the end of the one before. */
static struct livemost *interval_at(struct livedevice *d, uint64_t number)
{
	if (!d->nr_intervals && !d->interval)
		d->first_interval = number;
	if (number < d->first_interval) /* it has been told: what comes late counts with the next */
		number = d->first_interval;
	d->interval = heap_grow(d->interval, &d->room, number - d->first_interval + 1, sizeof(*d->interval));
	while (d->nr_intervals <= number - d->first_interval)
		d->interval[d->nr_intervals++] = d->now;
	return &d->interval[number - d->first_interval];
}

void livedevice_forget(struct livedevice *d, uint64_t before)
{
	size_t nr = before > d->first_interval ? (size_t)(before - d->first_interval) : 0;

	if (!nr)
		return;
	if (nr < d->nr_intervals)
		memmove(d->interval, d->interval + nr, (d->nr_intervals - nr) * sizeof(*d->interval));
	d->nr_intervals -= nr < d->nr_intervals ? nr : d->nr_intervals;
	d->first_interval = before;
}

static struct livedevice *device_of(struct livetrace *t, uint32_t device)
{
	if (!t->device[device])
		t->device[device] = heap_alloc(1, sizeof(*t->device[device]));
	return t->device[device];
}

static void note(struct livetrace *t, const struct books *books, uint32_t ordinal, uint64_t time_ns)
{
	const struct device_books *b = books_device(books, ordinal);
	struct livedevice *d = device_of(t, ordinal);
	struct livemost now = { b->allocated_bytes, b->reserved_bytes, livetrace_used_bytes(books, ordinal) };

	if (t->interval_ns)
		raise(interval_at(d, (t->start_ns + time_ns) / t->interval_ns), &now);
	livesteps_rise_note(&d->rise, &t->steps, d->now.allocated, now.allocated);
	d->now = now;
	raise(&d->since, &now);
}

static void observe(void *ctx, const struct replay_process *p, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct livetrace *t = ctx;

	if (!ev->before && p->lives)
		livesteps_note(&t->steps, &p->lives->steps, time_ns);
	if (ev->device >= TFMT_NR_DEVICES)
		return;
	note(t, p->books, ev->device, time_ns);
	if (!t->interval_ns)
		timeline_observe(&t->series, p, ev, time_ns);
}

/* ---- the trace ------------------------------------------------------------------------------- */

static bool is_whole(const char *path)
{
	struct tfmt_census *c;
	bool whole = !tfmt_census_open(&c, path);

	if (!whole)
		return false;
	whole = tfmt_census_facts(c)->flags != 0;
	tfmt_census_close(c);
	return whole;
}

/* Censuses beside the trace that have been written to their end. */
static size_t count_censuses(const struct livetrace *t)
{
	struct censusfiles files;
	size_t nr = 0;

	censusfiles_find(&files, t->path);
	for (size_t i = 0; i < files.nr_files; i++)
		nr += is_whole(files.file[i].path);
	censusfiles_release(&files);
	return nr;
}

static int open_replay(struct livetrace *t)
{
	struct replay_options follow = { .observe = observe, .ctx = t, .observe_past = true, .quiet = true, .follow = true,
					 .lives = true, .names = !t->interval_ns };

	series_init(&t->series);
	t->nr_censuses = t->interval_ns ? 0 : count_censuses(t);
	return replay_open(&t->replay, t->path, &follow);
}

static void close_replay(struct livetrace *t)
{
	replay_release(&t->replay);
	series_release(&t->series);
	t->steps = (struct livesteps){ 0 };
	for (size_t i = 0; i < TFMT_NR_DEVICES; i++) {
		if (t->device[i])
			free(t->device[i]->interval);
		free(t->device[i]);
		t->device[i] = NULL;
	}
}

struct livetrace *livetrace_open(const char *path, const struct tfmt_header *header, uint64_t interval_ns)
{
	struct livetrace *t = heap_alloc(1, sizeof(*t));

	t->path = heap_copy(path);
	t->interval_ns = interval_ns;
	t->start_real_ns = header->start_real_ns;
	if (!open_replay(t))
		return t;
	livetrace_close(t);
	return NULL;
}

void livetrace_close(struct livetrace *t)
{
	close_replay(t);
	free(t->path);
	free(t);
}

static uint64_t real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A process that goes on is looked at now, one that has ended at its end. */
static void tell_time(struct livetrace *t)
{
	const struct replay_process *p = livetrace_process(t);
	uint64_t real = real_ns(), age = real > t->start_real_ns ? real - t->start_real_ns : 0;

	t->now_ns = p->is_over || age < p->last_ns ? p->last_ns : age;
}

void livetrace_look(struct livetrace *t)
{
	/* A census that was taken since: names are read with the trace, from its beginning. */
	if (!t->interval_ns && count_censuses(t) != t->nr_censuses) {
		close_replay(t);
		if (open_replay(t))
			close_replay(t);
	}
	if (!livetrace_process(t)) /* it is gone */
		return;
	for (size_t i = 0; i < TFMT_NR_DEVICES; i++)
		if (t->device[i])
			t->device[i]->since = t->device[i]->now;
	if (!livetrace_process(t)->is_over)
		replay_advance(&t->replay);
	tell_time(t);
}
