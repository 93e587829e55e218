/* SPDX-License-Identifier: MIT */
/*
 * What `expandable_segments:True` would reserve: the recorded requests replayed on segments that grow page by
 * page, as PyTorch's allocator does with this setting. One range of addresses per pool, best fit, mapped at its
 * end as needed; emptying the cache gives back whole pages.
 */
#ifndef VT_EXPANDABLE_H
#define VT_EXPANDABLE_H

#include "analyzer/allocator/segments.h"
#include "analyzer/ledger/books.h"

struct expandable_pool {
	uint64_t base, end; /* of its addresses; of what was ever mapped */
	uint32_t private_id;
	uint16_t stream;
	bool small;
};

struct expandable {
	struct segments segments;
	struct blocks *placed; /* by recorded address; `handle` is the address in the replay. NULL: none so far */
	struct expandable_pool *pool;
	uint32_t nr_pools;
	size_t pools_room;
	uint64_t peak_bytes;
	bool is_full; /* there were more pools than addresses for them: nothing is known from then on */
};

void expandable_release(struct expandable *x);

/* r->requested, if known, is what is placed, rounded as the allocator does; r->address is the recorded one. */
void expandable_alloc(struct expandable *x, const struct segments_request *r);
void expandable_free(struct expandable *x, uint64_t address);

/* The cache is emptied. */
void expandable_empty_cache(struct expandable *x);

#endif
