/* SPDX-License-Identifier: MIT */
/* Shapes of tensors about to be allocated: interned once a process, cached by each thread. */
#ifndef IP_SHAPES_H
#define IP_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#define SHAPE_DIMS_MAX 16 /* tensors of more dimensions are recorded without shape */

struct shape_cache;

struct shape_cache *shape_cache_new(void); /* from ip_map; NULL without memory */
void shape_cache_free(struct shape_cache *c); /* NULL allowed */

/*
 * The id of (element type, sizes, storage bytes), defined in the trace before it is returned;
 * 0 when it cannot be recorded. strides NULL = contiguous. Calling thread's own cache; takes no lock on a hit.
 */
uint32_t shape_intern(struct shape_cache *c, int element_type, const int64_t *sizes, size_t nr_dims,
		      const int64_t *strides);

#endif
