/* SPDX-License-Identifier: MIT */
/*
 * The recorded requests with `expandable_segments:True` and else PyTorch's own settings, on a GPU without end: what would be
 * reserved, by the model of the allocator. Single-threaded.
 */
#ifndef VT_EXPANDABLE_H
#define VT_EXPANDABLE_H

#include "analyzer/allocator/blockslots.h"
#include "analyzer/allocator/cachingmodel.h"
#include "analyzer/allocator/segments.h"

/* Zero it. */
struct expandable {
	struct cachingmodel *model; /* NULL: nothing was asked for yet */
	struct blockslots slots;
};

void expandable_release(struct expandable *x);

/* r->requested, if known, is what is asked for; r->address is the recorded one. */
void expandable_alloc(struct expandable *x, const struct segments_request *r);
void expandable_free(struct expandable *x, uint64_t address);

/* The cache is emptied. */
void expandable_empty_cache(struct expandable *x);

/* Bytes: the most that was reserved, and what could not be given back, as things stand. */
uint64_t expandable_peak(const struct expandable *x);
uint64_t expandable_kept(const struct expandable *x);

#endif
