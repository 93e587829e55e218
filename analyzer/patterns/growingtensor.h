/* SPDX-License-Identifier: MIT */
/*
 * Growth by concatenation: of one line's tensors the next is larger in one dimension, and alike in the others, evenly and
 * again and again. `cache = torch.cat((cache, row))` makes [1, 64], [2, 64], [3, 64].
 */
#ifndef VT_GROWINGTENSOR_H
#define VT_GROWINGTENSOR_H

#include "analyzer/patterns/moment.h"

/* The shapes of one stack's tensors in the order in which they first appeared. */
struct growingtensor_series {
	uint32_t nr_grown;  /* how often the next was larger in one dimension and alike in the others, while the last was there */
	uint32_t nr_others; /* how often it was not */
	uint32_t nr_alike;  /* grown by as much as the time before */
	uint64_t by;        /* by how much it has grown */
	uint32_t dim;       /* which grew */
	uint64_t first, last;
};

/* All blocks of stacks whose tensors grow, made by calls without a graph. */
struct growingtensors {
	uint64_t bytes, rest; /* in tensors of 3 dimensions or more, in others */
	uint32_t nr_blocks, nr_rest;
	uint32_t nr_like; /* of those of 3 dimensions or more: of the largest's series, itself among them */
	size_t largest, largest_rest; /* blocks */
	struct growingtensor_series series, series_rest; /* of those */
};

void growingtensors_find(struct growingtensors *out, const struct moment *at);

#endif
