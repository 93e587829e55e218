/* SPDX-License-Identifier: MIT */
/* Walking through segments block by block. */
#include "analyzer/export/segmentlist.h"

#include <stdlib.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define PAGE_BYTES (2ull << 20) /* no smaller pages are mapped into an expandable segment */

/* Begin a range of `g` here. */
static void begin(struct segmentlist *l, const struct segments *s, const struct segment *g, uint64_t address)
{
	const struct segments_pool *pool = &s->pool[g->pool];

	l->segment = heap_grow(l->segment, &l->segments_room, l->nr_segments + 1, sizeof(*l->segment));
	l->segment[l->nr_segments++] = (struct segmentlist_segment){ .address = address,
								     .private_id = pool->private_id,
								     .stream = pool->stream,
								     .is_small = pool->small,
								     .is_expandable = g->page_bytes != 0,
								     .first_block = l->nr_blocks };
}

static void add(struct segmentlist *l, const struct segments_block *b)
{
	struct segmentlist_segment *range = &l->segment[l->nr_segments - 1];

	l->block = heap_grow(l->block, &l->blocks_room, l->nr_blocks + 1, sizeof(*l->block));
	l->block[l->nr_blocks++] = *b;
	range->nr_blocks++;
	range->size += b->size;
	if (b->state == SEGMENTS_LIVE)
		range->live_bytes += b->size;
	else if (b->state == SEGMENTS_PENDING)
		range->pending_bytes += b->size;
	if (segments_is_taken(b))
		range->requested_bytes += b->requested ? b->requested : b->size;
}

void segmentlist_add(struct segmentlist *l, const struct segments_request *block)
{
	struct segments_block b = { .address = block->address,
				    .size = block->size,
				    .requested = block->requested <= block->size ? block->requested : 0,
				    .group = block->group,
				    .state = SEGMENTS_LIVE };

	l->segment = heap_grow(l->segment, &l->segments_room, l->nr_segments + 1, sizeof(*l->segment));
	l->segment[l->nr_segments++] = (struct segmentlist_segment){ .address = b.address,
								     .stream = block->stream,
								     .is_small = b.size <= TORCH_SMALL_MAX,
								     .first_block = l->nr_blocks };
	add(l, &b);
}

/* The blocks of one segment that lie in [from, to). */
static void walk(struct segmentlist *l, const struct segments *s, uint32_t index, uint64_t from, uint64_t to)
{
	const struct segment *g = &s->segment[index];
	bool is_in_range = false;

	for (uint64_t at = from; at < to;) {
		const struct segments_block *b = segments_at(s, at);

		if (!b || b->segment != index) {
			is_in_range = false;
			at += PAGE_BYTES;
			continue;
		}
		if (!is_in_range)
			begin(l, s, g, b->address);
		is_in_range = true;
		add(l, b);
		at = b->address + b->size;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct segmentlist_segment *)a)->address,
		 y = ((const struct segmentlist_segment *)b)->address;

	return (x > y) - (x < y);
}

void segmentlist_make(struct segmentlist *l, const struct segments *s)
{
	*l = (struct segmentlist){ 0 };
	for (uint32_t i = 0; i < s->nr_segments; i++) {
		const struct segment *g = &s->segment[i];

		if (!g->gone && g->used && !g->page_bytes)
			walk(l, s, i, g->address, g->address + g->size);
	}
	for (uint32_t i = 0; i < s->nr_reservations; i++) {
		const struct segments_reservation *r = &s->reservation[i];

		if (r->segment && s->segment[r->segment - 1].used && !s->segment[r->segment - 1].gone)
			walk(l, s, r->segment - 1, r->address, r->address + r->size);
	}
	if (l->nr_segments)
		qsort(l->segment, l->nr_segments, sizeof(*l->segment), compare);
}

void segmentlist_release(struct segmentlist *l)
{
	free(l->segment);
	free(l->block);
	*l = (struct segmentlist){ 0 };
}
