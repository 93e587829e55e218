/* SPDX-License-Identifier: MIT */
/* Blocks and steps in the order of the recording's events. */
#include "analyzer/changes/editpeak.h"

#include <stdlib.h>

static int compare_birth(const void *key, const void *block)
{
	uint64_t birth = *(const uint64_t *)key, of = ((const struct category_block *)block)->life.birth.ordinal;

	return birth < of ? -1 : birth > of;
}

/* A step is between the event before it and its own, after those of less order. */
static uint64_t time_of(const struct edit_step *s)
{
	uint64_t order = s->order < BLOCKREPLAY_SCALE - 2 ? s->order : BLOCKREPLAY_SCALE - 2;

	return jobpart_time(s->at) - BLOCKREPLAY_SCALE + 1 + order;
}

static void add_step(struct blockreplay *r, const struct jobpart *j, const struct edit_step *s)
{
	const struct categories *c = &j->blocks;
	const struct category_block *b = bsearch(&s->birth, c->block, c->nr_blocks, sizeof(*c->block), compare_birth);
	bool is_end = s->kind == EDIT_FREE || s->kind == EDIT_APART_FREE;

	if (b)
		blockreplay_change(r, time_of(s), is_end ? -(int64_t)b->life.size : (int64_t)b->life.size);
}

uint64_t editpeak(const struct jobpart *j, const struct edits *e)
{
	struct blockreplay r = jobpart_replay(j);

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		jobpart_keep(&r, j, i);
	for (size_t i = 0; i < e->nr_steps; i++)
		add_step(&r, j, &e->step[i]);
	return jobpart_peak(j, &r);
}
