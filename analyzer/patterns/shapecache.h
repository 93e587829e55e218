/* SPDX-License-Identifier: MIT */
/*
 * A cache by shape: of what one line keeps nearly each tensor has a shape that none from another step has, as buffers of
 * `cache[x.shape] = torch.empty_like(x)`. Tensors that one step makes alike count once.
 */
#ifndef VT_SHAPECACHE_H
#define VT_SHAPECACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins as { 0 }. */
struct shapecache {
	uint32_t nr_shapes;  /* different ones, after shapecache_close() */
	uint32_t nr_entries; /* of a shape and a step each */
	/* inside */
	uint64_t *entry;
	size_t nr, room;
};

/* A tensor of this shape (id, 0 = not known, which is none) that a step has left. */
void shapecache_add(struct shapecache *c, uint32_t shape, uint32_t step);

/* Count, and let go of what is inside. Is it such a cache? */
bool shapecache_close(struct shapecache *c);

#endif
