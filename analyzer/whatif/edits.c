/* SPDX-License-Identifier: MIT */
/* Edits by birth, and steps in their order. */
#include "analyzer/whatif/edits.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "tracefmt/tracefmt.h"

static void add(struct edits *e, struct edit edit)
{
	e->edit = heap_grow(e->edit, &e->room, e->nr + 1, sizeof(*e->edit));
	e->edit[e->nr++] = edit;
}

void edits_add(struct edits *e, uint64_t birth, double factor)
{
	add(e, (struct edit){ .birth = birth, .factor = factor });
}

void edits_resize(struct edits *e, uint64_t birth, uint64_t bytes)
{
	add(e, (struct edit){ .birth = birth, .is_sized = true, .bytes = bytes });
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

static void add_more(struct edits *e, uint64_t from, uint64_t to, uint64_t bytes)
{
	if (!bytes)
		return;
	e->more = heap_grow(e->more, &e->more_room, e->nr_more + 1, sizeof(*e->more));
	e->more[e->nr_more] = (struct edit_more){ .bytes = bytes };
	edits_step(e, from, EDIT_MORE, e->nr_more);
	if (to != TFMT_NO_ORDINAL)
		edits_step(e, to, EDIT_MORE_FREE, e->nr_more);
	e->nr_more++;
}

void edits_more(struct edits *e, uint64_t from, uint64_t to, uint64_t bytes)
{
	if (from < to)
		add_more(e, from, to, bytes);
}

void edits_moment(struct edits *e, uint64_t at, uint64_t bytes)
{
	add_more(e, at, at, bytes);
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

static void sort_edits(struct edits *e)
{
	if (e->nr)
		qsort(e->edit, e->nr, sizeof(*e->edit), compare_edits);
}

/* A block whose time changes, but not its size, has an edit, too. */
static void add_missing(struct edits *e)
{
	struct edits missing = { 0 };

	for (size_t i = 0; i < e->nr_steps; i++)
		if (e->step[i].kind < EDIT_MORE && !edits_find(e, e->step[i].birth))
			edits_add(&missing, e->step[i].birth, 1);
	sort_edits(&missing);
	for (size_t i = 0; i < missing.nr; i++)
		if (!i || missing.edit[i].birth != missing.edit[i - 1].birth)
			add(e, missing.edit[i]);
	edits_release(&missing);
	sort_edits(e);
}

void edits_close(struct edits *e)
{
	sort_edits(e);
	add_missing(e);
	if (e->nr_steps)
		qsort(e->step, e->nr_steps, sizeof(*e->step), compare_step);
}

void edits_release(struct edits *e)
{
	free(e->edit);
	free(e->step);
	free(e->more);
	*e = (struct edits){ .path = e->path, .device = e->device };
}

uint64_t edit_bytes(const struct edit *e, uint64_t bytes)
{
	uint64_t changed = (uint64_t)llround((double)bytes * e->factor);

	if (e->is_sized)
		return e->bytes;
	return changed || e->factor <= 0 ? changed : 1;
}
