/* SPDX-License-Identifier: MIT */
/*
 * A kept graph: of one forward not only the result is there, but what its layers have saved for backward, too. What it
 * keeps lies close together among forward's allocations; where results alone are kept, all between them is gone.
 */
#ifndef VT_KEPTGRAPH_H
#define VT_KEPTGRAPH_H

#include <stdbool.h>
#include <stdint.h>

/* Begins as { 0 }. */
struct keptgraph {
	uint32_t nr_steps, nr_whole; /* that have left something; as much as a graph */
	uint64_t nr_blocks;
	uint64_t nr_allocations; /* of forward, in each step from the first to the last block that it has left */
	/* inside: the step that is being added */
	uint32_t step, blocks, first, last;
};

/* A block that a step (or any other part of the program's time) has left, by how many forward had made before. In order. */
void keptgraph_add(struct keptgraph *g, uint32_t step, uint32_t nr_forwards);

/* So many blocks that one step has left, by how many forward had made before the first and the last of them. */
void keptgraph_add_step(struct keptgraph *g, uint32_t nr_blocks, uint32_t first, uint32_t last);

/* Are these steps' blocks kept by graphs? */
bool keptgraph_is(const struct keptgraph *g);

#endif
