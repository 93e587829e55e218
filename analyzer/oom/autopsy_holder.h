/* SPDX-License-Identifier: MIT */
/* Which variable or container of the program's keeps most of the graphs, by the nodes that a census has counted. */
#ifndef VT_AUTOPSY_HOLDER_H
#define VT_AUTOPSY_HOLDER_H

#include "analyzer/oom/autopsy.h"

/*
 * What leads to the most nodes of graphs: a sum of losses, a hidden state that goes on from step to step, or the container that
 * has an entry for each graph. NULL: a census saw none. Older censuses count no nodes: of those the container with most entries.
 */
const struct namegroup *autopsy_find_graph_holder(const struct autopsy *a);

#endif
