/* SPDX-License-Identifier: MIT */
/* Adding up blocks and steps in the order of the recording's events. */
#include "analyzer/changes/editpeak.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

/* So many bytes more or fewer, at an event or before it. */
struct delta {
	uint64_t at;
	uint32_t order; /* of steps before the event, from 1; UINT32_MAX: the event itself */
	int64_t bytes;
};

struct deltas {
	const struct jobpart *j;
	struct delta *delta;
	size_t nr, room;
};

static void add(struct deltas *d, uint64_t at, uint32_t order, int64_t bytes)
{
	if (at > d->j->to)
		return;
	d->delta = heap_grow(d->delta, &d->room, d->nr + 1, sizeof(*d->delta));
	d->delta[d->nr++] = (struct delta){ at < d->j->from ? d->j->from : at, at < d->j->from ? 0 : order, bytes };
}

/* What ends at an event makes room for what begins with it. */
static int by_time(const void *va, const void *vb)
{
	const struct delta *a = va, *b = vb;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int compare_birth(const void *key, const void *block)
{
	uint64_t birth = *(const uint64_t *)key, of = ((const struct category_block *)block)->life.birth.ordinal;

	return birth < of ? -1 : birth > of;
}

static void add_step(struct deltas *d, const struct edit_step *s, uint32_t order)
{
	const struct categories *c = &d->j->blocks;
	const struct category_block *b = bsearch(&s->birth, c->block, c->nr_blocks, sizeof(*c->block), compare_birth);
	bool is_end = s->kind == EDIT_FREE || s->kind == EDIT_APART_FREE;

	if (b)
		add(d, s->at, order, is_end ? -(int64_t)b->life.size : (int64_t)b->life.size);
}

uint64_t editpeak(const struct jobpart *j, const struct edits *e)
{
	struct deltas d = { .j = j };
	int64_t now = 0, most = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		add(&d, life->birth.ordinal, UINT32_MAX, (int64_t)life->size);
		add(&d, life->death.ordinal, UINT32_MAX, -(int64_t)life->size);
	}
	for (size_t i = 0; i < e->nr_steps; i++)
		add_step(&d, &e->step[i], e->step[i].order + 1);
	if (j->asked)
		add(&d, j->to, UINT32_MAX, (int64_t)j->asked);
	if (d.nr)
		qsort(d.delta, d.nr, sizeof(*d.delta), by_time);
	for (size_t i = 0; i < d.nr; i++) {
		now += d.delta[i].bytes;
		most = now > most ? now : most;
	}
	free(d.delta);
	return (uint64_t)most + j->base > j->floor ? (uint64_t)most + j->base : j->floor;
}
