/* SPDX-License-Identifier: MIT */
/* Edits by birth, and steps in their order. */
#include "analyzer/whatif/edits.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/heap.h"

void edits_add(struct edits *e, uint64_t birth, double factor)
{
	e->edit = heap_grow(e->edit, &e->room, e->nr + 1, sizeof(*e->edit));
	e->edit[e->nr++] = (struct edit){ .birth = birth, .factor = factor };
}

static int compare_birth(const void *key, const void *edit)
{
	uint64_t birth = *(const uint64_t *)key, of = ((const struct edit *)edit)->birth;

	return birth < of ? -1 : birth > of;
}

struct edit *edits_find(const struct edits *e, uint64_t birth)
{
	return e->nr ? bsearch(&birth, e->edit, e->nr, sizeof(*e->edit), compare_birth) : NULL;
}

void edits_step(struct edits *e, uint64_t at, enum edit_kind kind, uint64_t birth)
{
	e->step = heap_grow(e->step, &e->steps_room, e->nr_steps + 1, sizeof(*e->step));
	e->step[e->nr_steps] = (struct edit_step){ at, (uint32_t)e->nr_steps, kind, birth };
	e->nr_steps++;
}

static int compare_step(const void *va, const void *vb)
{
	const struct edit_step *a = va, *b = vb;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int compare_edits(const void *a, const void *b)
{
	return compare_birth(&((const struct edit *)a)->birth, b);
}

void edits_close(struct edits *e)
{
	if (e->nr)
		qsort(e->edit, e->nr, sizeof(*e->edit), compare_edits);
	if (e->nr_steps)
		qsort(e->step, e->nr_steps, sizeof(*e->step), compare_step);
}

void edits_release(struct edits *e)
{
	free(e->edit);
	free(e->step);
	e->edit = NULL;
	e->step = NULL;
	e->nr = e->nr_steps = 0;
}

uint64_t edit_bytes(const struct edit *e, uint64_t bytes)
{
	uint64_t changed = (uint64_t)llround((double)bytes * e->factor);

	return changed || e->factor <= 0 ? changed : 1;
}
