/* SPDX-License-Identifier: MIT */
/*
 * A cache of keys and values: tensors [batch, heads, length, width] of a model's layers, or [length, heads, width], which
 * become longer by every token. It is told from other tensors that grow by its dimensions, and by being several.
 */
#ifndef VT_KVCACHE_H
#define VT_KVCACHE_H

#include <stdbool.h>
#include <stdint.h>

#define KVCACHE_DIMS_MIN 3 /* by definition: of a position, heads and width */

/* So many tensors with so many dimensions grow: are they keys and values? */
bool kvcache_is(uint64_t nr_tensors, uint32_t nr_dims);

#endif
