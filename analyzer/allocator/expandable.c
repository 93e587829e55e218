/* SPDX-License-Identifier: MIT */
/* Handing recorded requests to a model with expandable segments. */
#include "analyzer/allocator/expandable.h"

void expandable_release(struct expandable *x)
{
	cachingmodel_close(x->model);
	blockslots_release(&x->slots);
	*x = (struct expandable){ 0 };
}

static void begin(struct expandable *x)
{
	struct allocconf conf = allocconf_default(ALLOCCONF_NEWEST);

	conf.expandable = true;
	x->model = cachingmodel_open(&conf, 0);
}

void expandable_alloc(struct expandable *x, const struct segments_request *r)
{
	bool is_known = r->requested && r->requested <= r->size;
	struct cachingmodel_request request = { .bytes = is_known ? r->requested : r->size,
						.private_id = r->private_id,
						.stream = r->stream };

	if (!x->model)
		begin(x);
	expandable_free(x, r->address);
	request.slot = blockslots_new(&x->slots, r->address);
	cachingmodel_alloc(x->model, &request); /* the GPU has no end */
}

void expandable_free(struct expandable *x, uint64_t address)
{
	uint32_t slot;

	if (blockslots_end(&x->slots, address, &slot))
		cachingmodel_free(x->model, slot, false);
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
