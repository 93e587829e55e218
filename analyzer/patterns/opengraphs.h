/* SPDX-License-Identifier: MIT */
/*
 * Open graphs: what forward has saved since the latest backward pass. One call's are there before each pass; of several
 * calls, with a batch each, they pile up: a loop that never calls backward(), or an evaluation without no_grad().
 */
#ifndef VT_OPENGRAPHS_H
#define VT_OPENGRAPHS_H

#include "analyzer/patterns/moment.h"

/* Forward's blocks with a graph, after the latest backward pass. */
struct opengraphs {
	uint64_t bytes;
	uint32_t nr_blocks;
	uint32_t nr_calls;    /* as often as a batch was made for them */
	uint32_t nr_repeated; /* blocks of stacks that are there as often */
	uint64_t repeated_bytes;
	uint64_t input_bytes; /* of the batches that went into as many calls */
	size_t largest;   /* block */
	bool is_consumed; /* some of their stacks have had a backward before */
};

void opengraphs_find(struct opengraphs *g, const struct moment *at);

/* Was a block made after the latest backward pass? */
bool opengraphs_is_open(const struct moment *at, size_t block);

#endif
