/* SPDX-License-Identifier: MIT */
/*
 * census_graph: how much of autograd's graphs a tensor keeps. In a copy of the process.
 *
 * A *node* is an operation that backward will go through; a tensor's grad_fn leads to all that it was computed of. Nodes are
 * objects of many C++ classes; each is known as one by the name of its class, which lies beside the class's table of virtual
 * functions. Everything is read with the kernel's help: another thread may have been changing what is looked at.
 */
#ifndef IP_CENSUS_GRAPH_H
#define IP_CENSUS_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#define CENSUS_GRAPH_CLASSES 512 /* of nodes: those that are known by their table, in slots */

struct census_graph {
	/* private */
	struct census_graph_slot *slot; /* nodes that were met; NULL: nothing was looked at yet, or there is no memory */
	const char **queue;
	const void *table[CENSUS_GRAPH_CLASSES]; /* that are of classes of nodes */
	uint32_t walk;     /* the present one */
	uint64_t nr_looks; /* at nodes, in all walks */
	const void *latest; /* the node that was counted last, */
	uint32_t nr_latest; /* and what it leads to */
};

/* How many nodes a node leads to, itself among them; 0: it is none, or there was no room or time to count. Zero *g first. */
uint32_t census_graph_nodes(struct census_graph *g, const void *node);

#endif
