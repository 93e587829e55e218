/* SPDX-License-Identifier: MIT */
/*
 * graph: what the files about graphs share. A *node* has the parameters that it was added with, and *edges*
 * to the nodes that it waits for. An *inner* graph belongs to a node: a child graph, or a body of a
 * conditional node. Instantiating a graph clones it: an executable graph owns such a clone, whose nodes know
 * by their *origin* which node of the source they stand for. As in CUDA, a graph is no object for several
 * threads at a time; only adding nodes is, because streams of one capture may belong to several threads.
 */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include "simgpu/internal.h"

struct sim_edge {
	struct sim_node *from;
	CUgraphEdgeData data;
};

struct sim_edges {
	size_t nr, room;
	struct sim_edge *list;
};

struct sim_node {
	uint32_t magic;
	bool is_disabled; /* of an executable graph: cuGraphNodeSetEnabled */
	size_t index;     /* its place in GRAPH's nodes */
	size_t waits;     /* its place in GRAPH's order, while that is found; SIZE_MAX: none yet */
	struct sim_graph *graph;
	struct sim_node *origin;  /* of a clone; NULL: of none */
	struct sim_edges edges;   /* what it waits for */
	CUgraphNodeParams params; /* .type is its kind */
	void *kept;               /* what PARAMS points to: kernel arguments in one piece, operations */
	CUgraph *inner;
	unsigned nr_inner;
	CUlaunchAttribute *attributes; /* of a kernel */
	unsigned nr_attributes;
};

/* What launches do to the memory of allocation nodes: shared by a graph and what was instantiated from it. */
struct sim_graph_steps {
	unsigned refs;
	size_t nr, room;
	struct sim_graph_step *list;
};

/* References to user objects that a graph holds. */
struct sim_graph_held {
	CUuserObject object;
	unsigned count;
};

struct sim_graph {
	uint32_t magic;
	size_t nr, room;
	struct sim_node **nodes;
	struct sim_node **order; /* in which a launch runs them; NULL: as they were added */
	struct sim_node *owner;  /* of an inner graph */
	struct sim_graph_steps *steps;
	size_t nr_steps; /* of a clone: how many of them there were */
	struct sim_graph_held *held;
	size_t nr_held;
	struct sim_conditional *conditionals;
};

/* A handle of cuGraphConditionalHandleCreate(): what decides whether a conditional node's body runs. */
struct sim_conditional {
	struct sim_conditional *next;
	unsigned value; /* at each launch */
	bool is_used;   /* a node has it */
};

/* The graph or node that a handle stands for, or NULL when it is none. */
struct sim_graph *sim_graph_of(CUgraph handle);
struct sim_node *sim_node_of(CUgraphNode handle);

/* A new node of GRAPH with parameters as they are, after the nodes of EDGES. */
struct sim_node *sim_node_new(struct sim_graph *graph, const CUgraphNodeParams *params,
			      const struct sim_edges *edges);

/* NODE waits for FROM too; DATA NULL stands for an ordinary edge. Returns false if it does already. */
bool sim_edges_add(struct sim_edges *edges, struct sim_node *from, const CUgraphEdgeData *data);
void sim_edges_release(struct sim_edges *edges);

/* EDGES from NR nodes of GRAPH; invalid value, and none, if one of them is no node of it or is there twice. */
CUresult sim_edges_read(struct sim_edges *edges, const struct sim_graph *graph, const CUgraphNode *nodes,
			const CUgraphEdgeData *data, size_t nr);

/* Whether PARAMS are such as a node can have; what a node added with them or given them would return. */
CUresult sim_node_check(const CUgraphNodeParams *params);

/* Give NODE parameters that were checked: what they point to is copied. Of its own kind. */
void sim_node_fill(struct sim_node *node, const CUgraphNodeParams *params);

/* Forget what NODE's parameters own. */
void sim_node_empty(struct sim_node *node);

/* Whether GRAPH, inner graphs included, has a node of KIND. */
bool sim_graph_has(const struct sim_graph *graph, CUgraphNodeType kind);

/* A copy of GRAPH, inner graphs, user objects and the steps of memory included. */
struct sim_graph *sim_graph_clone(struct sim_graph *graph);

/* GRAPH is no inner graph of OWNER's any more: it goes. */
void sim_graph_release(struct sim_graph *graph);

/* The node of CLONE that stands for ORIGIN, or NULL. */
struct sim_node *sim_graph_find_origin(const struct sim_graph *clone, const struct sim_node *origin);

/* ---- user objects (userobject.c) ------------------------------------------------------------- */

/* COUNT references more; false if OBJECT is none. COUNT less: with the last of all its destructor is called. */
bool sim_user_object_get(CUuserObject object, unsigned count);
bool sim_user_object_put(CUuserObject object, unsigned count);

/* GRAPH holds COUNT references more, which it has been given; fewer, false if it holds less than that. */
void sim_graph_hold(struct sim_graph *graph, CUuserObject object, unsigned count);
bool sim_graph_let_go(struct sim_graph *graph, CUuserObject object, unsigned count);

/* TO holds what FROM holds, instead of what it held. */
void sim_graph_hold_same(struct sim_graph *to, const struct sim_graph *from);
void sim_graph_let_all_go(struct sim_graph *graph);

#endif
