/* SPDX-License-Identifier: MIT */
/* Are the blocks that steps leave those of a graph? */
#include "analyzer/patterns/keptgraph.h"

#include "analyzer/patterns/patterns_thresholds.h"

void keptgraph_add_step(struct keptgraph *g, uint32_t nr_blocks, uint32_t first, uint32_t last)
{
	if (!nr_blocks)
		return;
	g->nr_steps++;
	g->nr_whole += nr_blocks >= GRAPH_BLOCKS_MIN;
	g->nr_blocks += nr_blocks;
	g->nr_allocations += last - first + 1;
}

void keptgraph_add(struct keptgraph *g, uint32_t step, uint32_t nr_forwards)
{
	if (g->blocks && step != g->step) {
		keptgraph_add_step(g, g->blocks, g->first, g->last);
		g->blocks = 0;
	}
	if (!g->blocks++)
		g->first = nr_forwards;
	g->last = nr_forwards;
	g->step = step;
}

bool keptgraph_is(const struct keptgraph *g)
{
	struct keptgraph all = *g;

	keptgraph_add_step(&all, g->blocks, g->first, g->last);
	/* The first and the last may have part of a graph only. */
	return all.nr_steps && all.nr_whole >= GRAPH_STEPS_MIN * all.nr_steps &&
	       (double)all.nr_blocks >= GRAPH_DENSITY_MIN * (double)all.nr_allocations;
}
