/* SPDX-License-Identifier: MIT */
/* Replaying requests on expandable segments. */
#include "analyzer/allocator/expandable.h"

#include <stdlib.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define RANGE (1ull << 44) /* addresses of a pool: more than it ever maps */

void expandable_release(struct expandable *x)
{
	segments_release(&x->segments);
	blocks_close(x->placed);
	free(x->pool);
	*x = (struct expandable){ 0 };
}

/* NULL: there are no addresses for another pool. */
static struct expandable_pool *pool_get(struct expandable *x, const struct segments_request *r)
{
	bool small = r->size <= TORCH_SMALL_MAX;
	uint64_t base;

	for (uint32_t i = 0; i < x->nr_pools; i++) {
		struct expandable_pool *p = &x->pool[i];

		if (p->stream == r->stream && p->small == small && p->private_id == r->private_id)
			return p;
	}
	base = (x->nr_pools + 1ull) * RANGE;
	if (base > UINT64_MAX - RANGE)
		return NULL;
	x->pool = heap_grow(x->pool, &x->pools_room, (size_t)x->nr_pools + 1, sizeof(*x->pool));
	segments_reserve(&x->segments, base, RANGE);
	x->pool[x->nr_pools] = (struct expandable_pool){ base, base, r->private_id, r->stream, small };
	return &x->pool[x->nr_pools++];
}

/* The address of the best free block; 0 = none. The one at the end, which can grow, only if no other fits. */
static uint64_t best_fit(const struct expandable *x, const struct expandable_pool *p, uint64_t size)
{
	const struct segments_block *tail = p->end > p->base ? segments_at(&x->segments, p->end - 1) : NULL;
	bool tail_fits = tail && tail->state == SEGMENTS_FREE && tail->size >= size;
	uint64_t found = segments_best_fit(&x->segments, p->base, p->end, size, tail_fits ? tail->address : 0);

	return found || !tail_fits ? found : tail->address;
}

/* The bytes of as few pages as hold so many. */
static uint64_t whole_pages(uint64_t bytes, uint64_t page)
{
	return bytes / page * page + (bytes % page ? page : 0);
}

/* Map pages at the end until so much is free there, or all of the range is mapped; its address. */
static uint64_t grow(struct expandable *x, struct expandable_pool *p, uint64_t size)
{
	const struct segments_block *tail = p->end > p->base ? segments_at(&x->segments, p->end - 1) : NULL;
	uint64_t page = p->small ? TORCH_SMALL_SEGMENT : TORCH_LARGE_SEGMENT;
	uint64_t from = tail && tail->state == SEGMENTS_FREE ? tail->address : p->end;
	uint64_t left = p->end - p->base < RANGE - page ? RANGE - page - (p->end - p->base) : 0;
	uint64_t needed = size > p->end - from ? size - (p->end - from) : 0;
	uint64_t more = whole_pages(needed < left ? needed : left, page);

	/* The first page tells how large pages are; the others come at once, for a request may be of any size. */
	if (more && p->end == p->base) {
		segments_map(&x->segments, p->end, page);
		p->end += page;
		more -= page;
	}
	segments_map(&x->segments, p->end, more);
	p->end += more;
	return from;
}

void expandable_alloc(struct expandable *x, const struct segments_request *r)
{
	struct expandable_pool *p = pool_get(x, r);
	struct segments_request here = *r;
	struct block placed = { .address = r->address, .space = BLOCK_TENSOR };

	expandable_free(x, r->address);
	x->is_full |= !p;
	if (x->is_full)
		return;
	if (r->requested && r->requested <= r->size)
		here.size = torch_rounded(r->requested);
	here.address = best_fit(x, p, here.size);
	if (!here.address)
		here.address = grow(x, p, here.size);
	segments_alloc(&x->segments, &here);
	placed.handle = here.address;
	placed.size = here.size;
	if (!x->placed)
		x->placed = blocks_open();
	blocks_insert(x->placed, &placed);
	if (x->segments.reserved_bytes > x->peak_bytes)
		x->peak_bytes = x->segments.reserved_bytes;
}

void expandable_free(struct expandable *x, uint64_t address)
{
	struct block *b = x->placed ? blocks_find(x->placed, BLOCK_TENSOR, address) : NULL;

	if (!b)
		return;
	segments_free(&x->segments, b->handle, false);
	blocks_remove(x->placed, b);
}

void expandable_empty_cache(struct expandable *x)
{
	for (uint32_t i = 0; i < x->nr_pools; i++) {
		struct expandable_pool *p = &x->pool[i];
		uint64_t page = p->small ? TORCH_SMALL_SEGMENT : TORCH_LARGE_SEGMENT;

		for (uint64_t at = p->base; at < p->end && x->segments.whole_bytes;) {
			const struct segments_block *b = segments_at(&x->segments, at);
			uint64_t end = b ? b->address + b->size : at + page;
			uint64_t first = (at - p->base + page - 1) / page * page + p->base;
			uint64_t last = (end - p->base) / page * page + p->base;

			if (b && b->state == SEGMENTS_FREE && last > first)
				segments_give(&x->segments, first, last - first);
			at = end;
		}
	}
}
