/* SPDX-License-Identifier: MIT */
/* Blocks and steps in the order of the recording's events. */
#include "analyzer/changes/editpeak.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/changes/blockreplay.h"

/* A step is between the event before it and its own, after those of less order. */
static uint64_t time_of(const struct edit_step *s)
{
	uint64_t order = s->order < BLOCKREPLAY_SCALE - 2 ? s->order : BLOCKREPLAY_SCALE - 2;

	return s->at ? jobpart_time(s->at) - BLOCKREPLAY_SCALE + 1 + order : 0;
}

/* ---- the steps of blocks, each block's together ------------------------------------------------- */

struct block_steps {
	const struct edit_step **step; /* by birth, then as they are done */
	size_t nr, next;
};

static int by_birth(const void *va, const void *vb)
{
	const struct edit_step *a = *(const struct edit_step *const *)va, *b = *(const struct edit_step *const *)vb;

	if (a->birth != b->birth)
		return a->birth < b->birth ? -1 : 1;
	return a < b ? -1 : a > b; /* the edits are closed */
}

static struct block_steps steps_of_blocks(const struct edits *e)
{
	struct block_steps s = { .step = heap_alloc(e->nr_steps, sizeof(*s.step)) };

	for (size_t i = 0; i < e->nr_steps; i++)
		if (e->step[i].kind < EDIT_MORE)
			s.step[s.nr++] = &e->step[i];
	if (s.nr)
		qsort(s.step, s.nr, sizeof(*s.step), by_birth);
	return s;
}

/* One like the block, beside it. */
static void do_apart(struct blockreplay *r, const struct edit_step *s, uint64_t size, uint64_t *since)
{
	if (s->kind == EDIT_APART)
		*since = time_of(s);
	if (s->kind == EDIT_APART_FREE && *since != BLOCKREPLAY_END) {
		blockreplay_add(r, *since, time_of(s), size);
		*since = BLOCKREPLAY_END;
	}
}

static void add_block(struct blockreplay *r, const struct life *life, uint64_t size, struct block_steps *s)
{
	uint64_t since = jobpart_time(life->birth.ordinal), end = jobpart_time(life->death.ordinal), apart = BLOCKREPLAY_END;

	while (s->next < s->nr && s->step[s->next]->birth < life->birth.ordinal)
		s->next++;
	for (; s->next < s->nr && s->step[s->next]->birth == life->birth.ordinal; s->next++) {
		const struct edit_step *step = s->step[s->next];
		uint64_t time = time_of(step);

		if (step->kind == EDIT_FREE && since < time && time < end) {
			blockreplay_add(r, since, time, size);
			since = BLOCKREPLAY_END;
		} else if (step->kind == EDIT_AGAIN && since == BLOCKREPLAY_END) {
			since = time;
		} else {
			do_apart(r, step, size, &apart);
		}
	}
	blockreplay_add(r, since, end, size);
	blockreplay_add(r, apart, BLOCKREPLAY_END, size);
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static void add_more(struct blockreplay *r, const struct edits *e)
{
	for (size_t i = 0; i < e->nr_steps; i++) {
		const struct edit_step *s = &e->step[i];

		if (s->kind >= EDIT_MORE)
			blockreplay_change(r, time_of(s), (s->kind == EDIT_MORE ? 1 : -1) * (int64_t)e->more[s->birth].bytes);
	}
}

static void add_asked(struct blockreplay *r, const struct jobpart *j, const struct edits *e)
{
	const struct edit *edit = edits_find(e, j->to);

	if (j->asked)
		blockreplay_add(r, r->to, BLOCKREPLAY_END, edit ? edit_bytes(edit, j->asked) : j->asked);
}

uint64_t editpeak(const struct jobpart *j, struct edits *e)
{
	struct blockreplay r = { .from = jobpart_time(j->from), .to = jobpart_time(j->to) };
	struct block_steps steps;
	uint64_t peak;

	edits_close(e);
	steps = steps_of_blocks(e);
	add_asked(&r, j, e);
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		const struct edit *edit = edits_find(e, life->birth.ordinal);

		add_block(&r, life, edit ? edit_bytes(edit, life->size) : life->size, &steps);
	}
	add_more(&r, e);
	peak = blockreplay_peak(&r) + j->base;
	blockreplay_release(&r);
	free(steps.step);
	return peak > j->floor ? peak : j->floor;
}

uint64_t editpeak_once(const struct jobpart *j, struct edits *e)
{
	uint64_t peak = editpeak(j, e);

	edits_release(e);
	return peak;
}
