/* SPDX-License-Identifier: MIT */
/* Taking down the blocks of partly free segments, and grouping them by the place that allocated them. */
#include "analyzer/allocator/blockers.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/allocator_thresholds.h"
#include "analyzer/base/heap.h"
#include "analyzer/stacks/sourceline.h"

void blockers_moment_release(struct blockers_moment *moment)
{
	free(moment->block);
	*moment = (struct blockers_moment){ 0 };
}

/* ---- taking them down --------------------------------------------------------------------------- */

static void take_part(struct blockers_moment *m, const struct segments_block *b, uint64_t unit, uint64_t unit_bytes,
		      uint64_t bytes)
{
	m->block = heap_grow(m->block, &m->room, m->nr_blocks + 1, sizeof(*m->block));
	m->block[m->nr_blocks++] = (struct blockers_block){ unit, unit_bytes, bytes, b->since_ns, b->group };
}

static void take_block(void *ctx, const struct segments_block *b, const struct segment *g)
{
	struct blockers_moment *m = ctx;
	uint64_t end = b->address + b->size, page, part;

	if (!g->page_bytes) {
		take_part(m, b, g->address, g->size, b->size);
		return;
	}
	for (uint64_t from = b->address; from < end; from = part) {
		page = g->address + (from - g->address) / g->page_bytes * g->page_bytes;
		part = page + g->page_bytes < end ? page + g->page_bytes : end;
		if (part - from < g->page_bytes)
			take_part(m, b, page, g->page_bytes, part - from);
		else /* pages that it has alone have nothing free */
			part = page + (end - page) / g->page_bytes * g->page_bytes;
	}
}

static int by_unit(const void *a, const void *b)
{
	const struct blockers_block *x = a, *y = b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return x->since_ns < y->since_ns ? -1 : x->since_ns > y->since_ns;
}

void blockers_take(struct blockers_moment *moment, const struct segments *s, bool at_mark)
{
	moment->nr_blocks = 0;
	segments_each(s, at_mark, take_block, moment);
	if (moment->nr_blocks)
		qsort(moment->block, moment->nr_blocks, sizeof(*moment->block), by_unit);
}

/* ---- grouping them ------------------------------------------------------------------------------ */

struct grouping {
	struct blockers *result;
	const struct replay *m;
	struct replay_process *process;
	uint32_t *of_group; /* the blocker that a group of the books belongs to: index + 1, 0 = not known yet */
	size_t room;
	struct stack stack;
};

static bool same_site(const struct stack_frame *a, const struct stack_frame *b)
{
	return a->offset == b->offset && sourceline_is_same_call(a, b);
}

/* The blocker of a place; a stack without one is a place of its own. Index + 1. */
static uint32_t blocker_at(struct grouping *g, const struct group *group)
{
	struct stack_source source = replay_stack_source(g->m, g->process);
	struct blocker like = { .python_stack = group->python_stack,
				.native_stack = group->native_stack,
				.of_pass = group->phase == PHASE_FORWARD || group->phase == PHASE_BACKWARD };
	struct blockers *r = g->result;
	int site;

	stack_expand(&g->stack, &source, group->python_stack, group->native_stack);
	site = stack_site(&g->stack);
	like.known = site >= 0;
	if (like.known)
		like.site = g->stack.frame[site];
	for (size_t i = 0; i < r->nr_blockers; i++) {
		const struct blocker *b = &r->blocker[i];

		if (b->known != like.known)
			continue;
		if (b->known ? same_site(&b->site, &like.site)
			     : b->python_stack == like.python_stack && b->native_stack == like.native_stack)
			return (uint32_t)i + 1;
	}
	r->blocker = heap_grow(r->blocker, &g->room, r->nr_blockers + 1, sizeof(like));
	r->blocker[r->nr_blockers++] = like;
	return (uint32_t)r->nr_blockers;
}

static uint32_t blocker_of(struct grouping *g, uint32_t group)
{
	if (!g->of_group[group])
		g->of_group[group] = blocker_at(g, books_group(g->process->books, group));
	return g->of_group[group];
}

static void add_block(struct blocker *b, const struct blockers_block *block, uint64_t kept_bytes)
{
	if (!b->blocks || block->since_ns < b->oldest_ns)
		b->oldest_ns = block->since_ns;
	if (!b->blocks)
		b->first_unit = block->unit;
	if (!b->blocks || b->last_unit != block->unit)
		b->units++;
	b->last_unit = block->unit;
	b->blocks++;
	b->bytes += block->size;
	if (block->size > b->largest_bytes)
		b->largest_bytes = block->size;
	b->kept_bytes += kept_bytes;
}

/* The blocks of one unit, of which `live` bytes are. */
static void group_unit(struct grouping *g, const struct blockers_block *block, size_t nr, uint64_t live)
{
	uint32_t only = blocker_of(g, block[0].group);
	double free_bytes = (double)(block[0].unit_bytes - live);

	for (size_t i = 0; i < nr; i++) {
		uint32_t index = blocker_of(g, block[i].group);

		add_block(&g->result->blocker[index - 1], &block[i],
			  (uint64_t)(free_bytes * (double)block[i].size / (double)live));
		if (index != only)
			only = 0;
	}
	if (only)
		g->result->blocker[only - 1].alone_units++;
}

/* The bytes in use of the unit whose first block is given; *last comes after its blocks. */
static uint64_t live_of_unit(const struct blockers_moment *moment, size_t first, size_t *last)
{
	uint64_t live = 0;

	for (*last = first; *last < moment->nr_blocks && moment->block[*last].unit == moment->block[first].unit; ++*last)
		live += moment->block[*last].size;
	return live;
}

static int by_kept(const void *a, const void *b)
{
	const struct blocker *x = a, *y = b;

	if (x->kept_bytes != y->kept_bytes)
		return x->kept_bytes < y->kept_bytes ? 1 : -1;
	return x->oldest_ns < y->oldest_ns ? -1 : x->oldest_ns > y->oldest_ns;
}

/* What is free in units that are in use, and how much of it in those that are at least half free. */
static void sum_free(const struct blockers_moment *moment, uint64_t *in_all, uint64_t *in_half_free)
{
	size_t last;

	*in_all = *in_half_free = 0;
	for (size_t first = 0; first < moment->nr_blocks; first = last) {
		uint64_t unit = moment->block[first].unit_bytes, live = live_of_unit(moment, first, &last);

		*in_all += unit - live;
		*in_half_free += live <= unit / HALF_FREE_UNIT_PART ? unit - live : 0;
	}
}

void blockers_find(struct blockers *b, const struct blockers_moment *moment, const struct replay *m,
		   struct replay_process *process)
{
	struct grouping g = { .result = b, .m = m, .process = process };
	uint64_t in_all, in_half_free;
	size_t last;

	sum_free(moment, &in_all, &in_half_free);
	*b = (struct blockers){ .is_half_free = HALF_FREE_ALL_PART * in_half_free >= in_all };
	g.of_group = heap_alloc(books_nr_groups(process->books), sizeof(*g.of_group));
	for (size_t first = 0; first < moment->nr_blocks; first = last) {
		const struct blockers_block *block = &moment->block[first];
		uint64_t live = live_of_unit(moment, first, &last);

		if (live && live <= (b->is_half_free ? block->unit_bytes / HALF_FREE_UNIT_PART : block->unit_bytes - 1))
			group_unit(&g, block, last - first, live);
	}
	if (b->nr_blockers)
		qsort(b->blocker, b->nr_blockers, sizeof(*b->blocker), by_kept);
	stack_release(&g.stack);
	free(g.of_group);
}

void blockers_release(struct blockers *b)
{
	free(b->blocker);
	*b = (struct blockers){ 0 };
}
