/* SPDX-License-Identifier: MIT */
/* Entries undone from the end to the beginning, then done again. */
#include "analyzer/imports/snapshotplay.h"

#include <stdlib.h>

#include "analyzer/allocator/torch.h"

/* ---- the end ------------------------------------------------------------------------------------- */

static uint64_t page_bytes(uint64_t size)
{
	return size % TORCH_LARGE_SEGMENT ? TORCH_SMALL_SEGMENT : TORCH_LARGE_SEGMENT;
}

static void take_segment(struct snapshotmemory *m, const struct snapshot *s, const struct snapshot_segment *g)
{
	if (g->is_expandable)
		pageranges_add(&m->pages, g->address, g->size, page_bytes(g->size));
	else
		addressmap_put(&m->segments, (struct addressmap_entry){ .address = g->address,
									.size = g->size,
									.stack = g->stack,
									.stream = g->stream,
									.is_private = g->is_private });
	for (size_t i = g->first_block; i < g->first_block + g->nr_blocks; i++) {
		const struct snapshot_block *b = &s->block[i];

		if (b->state != SNAPSHOT_FREE)
			addressmap_put(&m->blocks, (struct addressmap_entry){ .address = b->address,
									      .size = b->size,
									      .requested = b->requested,
									      .stack = b->stack,
									      .stream = g->stream,
									      .state = b->state,
									      .is_private = g->is_private });
	}
}

static void take_end(struct snapshotmemory *m, const struct snapshot *s, uint32_t device)
{
	for (size_t i = 0; i < s->nr_segments; i++)
		if (s->segment[i].device == device)
			take_segment(m, s, &s->segment[i]);
}

/* ---- backwards ------------------------------------------------------------------------------------ */

/* A block of the end that cannot have been there when these entries were made. */
static void put_off(struct snapshotplay *p, struct addressmap_entry *b)
{
	if (b->size)
		addressmap_put(&p->late, *b);
	addressmap_remove(&p->now.blocks, b->address);
}

static void undo_alloc(struct snapshotplay *p, struct snapshot_entry *e)
{
	struct addressmap_entry *b = addressmap_find(&p->now.blocks, e->address);

	if (!b)
		return;
	if (b->size && b->requested && b->requested != e->size) {
		put_off(p, b);
		return;
	}
	e->is_last = b->size;
	addressmap_remove(&p->now.blocks, e->address);
}

static void undo_free(struct snapshotplay *p, const struct snapshot_entry *e, enum snapshot_state state)
{
	struct addressmap_entry *b = addressmap_find(&p->now.blocks, e->address);

	if (b && state == SNAPSHOT_ALLOCATED && b->state == SNAPSHOT_PENDING) {
		b->state = SNAPSHOT_ALLOCATED;
		return;
	}
	if (b)
		put_off(p, b);
	addressmap_put(&p->now.blocks, (struct addressmap_entry){ .address = e->address,
								  .requested = e->size,
								  .stream = e->stream,
								  .state = state,
								  .is_private = e->is_private });
}

static void undo(struct snapshotplay *p, struct snapshot_entry *e)
{
	switch (e->action) {
	case TFMT_ALLOCATOR_ALLOC:
		undo_alloc(p, e);
		break;
	case TFMT_ALLOCATOR_FREE_REQUESTED:
		undo_free(p, e, SNAPSHOT_ALLOCATED);
		break;
	case TFMT_ALLOCATOR_FREE_COMPLETED:
		undo_free(p, e, SNAPSHOT_PENDING);
		break;
	case TFMT_ALLOCATOR_SEGMENT_ALLOC:
		addressmap_remove(&p->now.segments, e->address);
		break;
	case TFMT_ALLOCATOR_SEGMENT_FREE:
		addressmap_put(&p->now.segments, (struct addressmap_entry){ .address = e->address,
									    .size = e->size,
									    .stream = e->stream,
									    .is_private = e->is_private });
		break;
	case TFMT_ALLOCATOR_SEGMENT_MAP:
		pageranges_add(&p->reach, e->address, e->size, page_bytes(e->size));
		pageranges_remove(&p->now.pages, e->address, e->size);
		break;
	case TFMT_ALLOCATOR_SEGMENT_UNMAP:
		pageranges_add(&p->reach, e->address, e->size, page_bytes(e->size));
		pageranges_add(&p->now.pages, e->address, e->size, page_bytes(e->size));
		break;
	default:
		break;
	}
}

/* ---- now, as it is cut up ------------------------------------------------------------------------- */

static void cut_memory(struct snapshotplay *p)
{
	for (size_t i = 0; i < p->reach.nr; i++)
		segments_reserve(&p->cut, p->reach.range[i].address, p->reach.range[i].size);
	for (size_t i = 0; i < p->now.pages.nr; i++)
		segments_map(&p->cut, p->now.pages.range[i].address, p->now.pages.range[i].size);
	for (size_t i = 0; i < p->now.segments.nr_slots; i++)
		if (p->now.segments.entry[i].is_used)
			segments_take(&p->cut, p->now.segments.entry[i].address, p->now.segments.entry[i].size);
}

void snapshotplay_begin(struct snapshotplay *p, const struct snapshot *s, uint32_t device)
{
	const struct snapshot_device *d = &s->device[device];

	*p = (struct snapshotplay){ .s = s, .device = device };
	take_end(&p->end, s, device);
	take_end(&p->now, s, device);
	for (size_t i = 0; i < p->now.pages.nr; i++) {
		const struct pagerange *r = &p->now.pages.range[i];

		pageranges_add(&p->reach, r->address, r->size, r->page_bytes);
	}
	for (size_t i = d->nr_entries; i-- > 0;)
		undo(p, &d->entry[i]);
	cut_memory(p);
	for (size_t i = 0; i < p->now.segments.nr_slots; i++)
		p->reserved += p->now.segments.entry[i].is_used ? p->now.segments.entry[i].size : 0;
	for (size_t i = 0; i < p->now.pages.nr; i++)
		p->reserved += p->now.pages.range[i].size;
}

static void memory_release(struct snapshotmemory *m)
{
	addressmap_release(&m->blocks);
	addressmap_release(&m->segments);
	pageranges_release(&m->pages);
}

void snapshotplay_release(struct snapshotplay *p)
{
	memory_release(&p->now);
	memory_release(&p->end);
	addressmap_release(&p->late);
	pageranges_release(&p->reach);
	segments_release(&p->cut);
}

void snapshotplay_take(struct snapshotplay *p, struct addressmap_entry segment)
{
	snapshotplay_give(p, segment.address);
	addressmap_put(&p->now.segments, segment);
	segments_take(&p->cut, segment.address, segment.size);
	p->reserved += segment.size;
}

void snapshotplay_give(struct snapshotplay *p, uint64_t address)
{
	const struct addressmap_entry *g = addressmap_find(&p->now.segments, address);

	if (!g)
		return;
	segments_give(&p->cut, address, g->size);
	p->reserved -= g->size;
	addressmap_remove(&p->now.segments, address);
}

void snapshotplay_map(struct snapshotplay *p, uint64_t address, uint64_t size)
{
	pageranges_add(&p->now.pages, address, size, page_bytes(size));
	segments_map(&p->cut, address, size);
	p->reserved += size;
}

void snapshotplay_unmap(struct snapshotplay *p, uint64_t address, uint64_t size)
{
	pageranges_remove(&p->now.pages, address, size);
	segments_give(&p->cut, address, size);
	p->reserved -= size < p->reserved ? size : p->reserved;
}

uint64_t snapshotplay_page_bytes(const struct snapshotplay *p, uint64_t address)
{
	const struct pagerange *r = pageranges_find(&p->reach, address);

	return r ? r->page_bytes : TORCH_SMALL_SEGMENT;
}

/* ---- sizes of blocks ------------------------------------------------------------------------------ */

static uint32_t divisions_of(const struct snapshot_settings *o, uint64_t size)
{
	int at = size >> 20 ? 43 - __builtin_clzll(size) : 0; /* whole powers of two from 1 MiB on */

	return o->roundup_divisions[at < 15 ? at : 15];
}

/* What the allocator makes of a request. */
static uint64_t rounded(const struct snapshot_settings *o, uint64_t size)
{
	uint64_t divisions = divisions_of(o, size), power, step, floor;

	if (divisions <= 1 || size <= TORCH_ROUND * divisions)
		return torch_rounded(size);
	power = 1ull << (63 - __builtin_clzll(size));
	step = power >> (63 - __builtin_clzll(divisions));
	floor = size & ~(step - 1);
	return floor == size ? size : floor + step;
}

uint64_t snapshotplay_segment_bytes(const struct snapshotplay *p, uint64_t requested)
{
	uint64_t size = rounded(&p->s->settings, requested);

	if (size <= TORCH_SMALL_MAX)
		return TORCH_SMALL_SEGMENT;
	if (size < TORCH_LARGE_MIN || p->s->settings.expandable_segments)
		return (size + TORCH_LARGE_SEGMENT - 1) / TORCH_LARGE_SEGMENT * TORCH_LARGE_SEGMENT;
	return (size + TORCH_SEGMENT_ROUND - 1) / TORCH_SEGMENT_ROUND * TORCH_SEGMENT_ROUND;
}

/* Does the allocator leave so much of a free block free when it takes the rest? */
static bool cuts_off(const struct snapshot_settings *o, uint64_t size, uint64_t rest)
{
	if (size <= TORCH_SMALL_MAX || o->expandable_segments)
		return rest >= TORCH_ROUND;
	return size < o->max_split_size && rest > TORCH_REST_MAX;
}

static uint64_t size_there(const struct snapshotplay *p, uint64_t address, uint64_t requested)
{
	const struct segments_block *b = segments_at(&p->cut, address);
	uint64_t size = rounded(&p->s->settings, requested), room;

	if (!b || segments_is_taken(b))
		return size;
	room = b->address + b->size - address;
	return room <= size || cuts_off(&p->s->settings, size, room - size) ? size : room;
}

uint64_t snapshotplay_known_size(const struct snapshotplay *p, const struct snapshot_entry *e)
{
	const struct addressmap_entry *b = e->is_last ? addressmap_find(&p->end.blocks, e->address) : NULL;

	return b ? b->size : 0;
}

uint64_t snapshotplay_alloc(struct snapshotplay *p, struct addressmap_entry b)
{
	struct segments_request r = { .address = b.address };

	b.size = b.size ? b.size : size_there(p, b.address, b.requested);
	r.size = b.size;
	segments_alloc(&p->cut, &r);
	p->allocated += b.size;
	addressmap_put(&p->now.blocks, b);
	return b.size;
}

void snapshotplay_free(struct snapshotplay *p, uint64_t address, bool is_pending)
{
	struct addressmap_entry *b = addressmap_find(&p->now.blocks, address);

	if (!b)
		return;
	if (b->state == SNAPSHOT_ALLOCATED)
		p->allocated -= b->size;
	segments_free(&p->cut, address, b->state == SNAPSHOT_PENDING || is_pending);
	if (!is_pending)
		segments_complete(&p->cut, address);
	if (is_pending)
		b->state = SNAPSHOT_PENDING;
	else
		addressmap_remove(&p->now.blocks, address);
}
