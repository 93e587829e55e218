/* SPDX-License-Identifier: MIT */
/* Handing recorded requests to a model with expandable segments. */
#include "analyzer/allocator/expandable.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

void expandable_release(struct expandable *x)
{
	cachingmodel_close(x->model);
	blocks_close(x->placed);
	free(x->spare_slot);
	*x = (struct expandable){ 0 };
}

static void begin(struct expandable *x)
{
	struct allocconf conf = allocconf_default(ALLOCCONF_NEWEST);

	conf.expandable = true;
	x->model = cachingmodel_open(&conf, 0);
	x->placed = blocks_open();
}

void expandable_alloc(struct expandable *x, const struct segments_request *r)
{
	struct block placed = { .address = r->address, .space = BLOCK_TENSOR };
	bool is_known = r->requested && r->requested <= r->size;
	struct cachingmodel_request request = { .bytes = is_known ? r->requested : r->size,
						.private_id = r->private_id,
						.stream = r->stream };

	if (!x->model)
		begin(x);
	expandable_free(x, r->address);
	request.slot = x->nr_spare ? x->spare_slot[--x->nr_spare] : x->nr_slots++;
	cachingmodel_alloc(x->model, &request); /* the GPU has no end */
	placed.handle = request.slot;
	blocks_insert(x->placed, &placed);
}

void expandable_free(struct expandable *x, uint64_t address)
{
	struct block *b = x->placed ? blocks_find(x->placed, BLOCK_TENSOR, address) : NULL;

	if (!b)
		return;
	cachingmodel_free(x->model, (uint32_t)b->handle, false);
	x->spare_slot = heap_grow(x->spare_slot, &x->spare_room, x->nr_spare + 1, sizeof(*x->spare_slot));
	x->spare_slot[x->nr_spare++] = (uint32_t)b->handle;
	blocks_remove(x->placed, b);
}

void expandable_empty_cache(struct expandable *x)
{
	if (x->model)
		cachingmodel_empty_cache(x->model);
}

uint64_t expandable_peak(const struct expandable *x)
{
	return x->model ? cachingmodel_figures(x->model)->peak_reserved : 0;
}

uint64_t expandable_kept(const struct expandable *x)
{
	return x->model ? cachingmodel_figures(x->model)->reserved - cachingmodel_whole(x->model) : 0;
}
