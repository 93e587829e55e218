/* SPDX-License-Identifier: MIT */
/* What driver and runtime wrappers of arrays share: the memory that an array of some shape takes. */
#ifndef IP_HOOKS_ARRAY_H
#define IP_HOOKS_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

struct array_shape {
	uint64_t width, height, depth; /* in elements; 0 = not of that dimension; depth also counts layers */
	unsigned levels;
	uint64_t element_bytes; /* 0 = not known */
	bool layered;
	bool mapped_later; /* it has no memory of its own: that comes with cuMemMapArrayAsync() */
};

/*
 * An array was made, or (error not 0) refused. told_bytes: what the driver says it takes; 0 = it did not, and
 * the size is computed from the shape and marked so.
 */
void ip_array_took(uint16_t function, int error, uint64_t array, const struct array_shape *shape,
		   uint64_t told_bytes);

#endif
