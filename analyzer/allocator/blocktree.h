/* SPDX-License-Identifier: MIT */
/*
 * The blocks of struct segments as a tree by address, each with the largest free block below it. Only segments.c uses
 * it. Nodes are indices into s->block; `at` is the root of a tree, 0 an empty one.
 */
#ifndef VT_BLOCKTREE_H
#define VT_BLOCKTREE_H

#include "analyzer/allocator/segments.h"

/* Add a block whose priority is set, remove one: the new root. */
uint32_t blocktree_insert(struct segments *s, uint32_t at, uint32_t n);
uint32_t blocktree_remove(struct segments *s, uint32_t at, uint32_t n);

/* A block's size or state has changed: tell all above it. Does that change the largest that is free from `at` on? */
bool blocktree_changed(struct segments *s, uint32_t at, uint32_t n);

/* The last block that begins at or before the address; 0 = none. */
uint32_t blocktree_floor(const struct segments *s, uint64_t address);

/* The block in which an address lies; 0 = none. */
static inline uint32_t blocktree_holding(const struct segments *s, uint64_t address)
{
	uint32_t n = blocktree_floor(s, address);

	return n && address - s->block[n].address < s->block[n].size ? n : 0;
}

static inline uint64_t blocktree_free_bytes(const struct segments_block *b)
{
	return b->state == SEGMENTS_FREE ? b->size : 0;
}

#endif
