/* SPDX-License-Identifier: MIT */
/* What a graph has, as a program asks for it: lists of its nodes and edges. */
#include <string.h>

#include "simgpu/graph.h"

/* Copies handles of up to *NR nodes, or with NODES NULL says how many there are. */
CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *nr)
{
	struct sim_graph *g = sim_graph_of(handle);

	if (!g || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *nr; i++)
		nodes[i] = i < g->nr ? (CUgraphNode)g->nodes[i] : NULL;
	if (!nodes || *nr > g->nr)
		*nr = g->nr;
	return CUDA_SUCCESS;
}

/* A list that a program asks for: how much of it fits, what there is, and what its edges would lose. */
struct answer {
	CUgraphNode *from, *to;
	CUgraphEdgeData *data;
	size_t room, nr;
	bool is_lossy;
};

static struct answer answer(CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, const size_t *nr)
{
	return (struct answer){ .from = from, .to = to, .data = data, .room = from || to ? *nr : 0 };
}

static void add(struct answer *a, struct sim_node *from, struct sim_node *to, const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;

	if (a->nr < a->room) {
		if (a->from)
			a->from[a->nr] = (CUgraphNode)from;
		if (a->to)
			a->to[a->nr] = (CUgraphNode)to;
		if (a->data && data)
			a->data[a->nr] = *data;
		a->is_lossy |= data && !a->data && memcmp(data, &plain, sizeof(plain));
	}
	a->nr++;
}

/* Say how many there were, as documented: rows beyond them are cleared. */
static CUresult finish(struct answer *a, size_t *nr)
{
	for (size_t i = a->nr; i < a->room; i++) {
		if (a->from)
			a->from[i] = NULL;
		if (a->to)
			a->to[i] = NULL;
	}
	if (!a->room || *nr > a->nr)
		*nr = a->nr;
	return a->is_lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode *nodes, size_t *nr)
{
	struct sim_graph *g = sim_graph_of(handle);
	struct answer a;

	if (!g || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	a = answer(nodes, NULL, NULL, nr);
	for (size_t i = 0; i < g->nr; i++)
		if (!g->nodes[i]->edges.nr)
			add(&a, g->nodes[i], NULL, NULL);
	return finish(&a, nr);
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
			    size_t *nr)
{
	struct sim_graph *g = sim_graph_of(handle);
	struct answer a;

	if (!g || !nr || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	a = answer(from, to, data, nr);
	for (size_t i = 0; i < g->nr; i++)
		for (size_t k = 0; k < g->nodes[i]->edges.nr; k++)
			add(&a, g->nodes[i]->edges.list[k].from, g->nodes[i],
			    &g->nodes[i]->edges.list[k].data);
	return finish(&a, nr);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode *dependencies, CUgraphEdgeData *data,
				       size_t *nr)
{
	struct sim_node *n = sim_node_of(handle);
	struct answer a;

	if (!n || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	a = answer(dependencies, NULL, data, nr);
	for (size_t k = 0; k < n->edges.nr; k++)
		add(&a, n->edges.list[k].from, n, &n->edges.list[k].data);
	return finish(&a, nr);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode *dependents, CUgraphEdgeData *data,
					 size_t *nr)
{
	struct sim_node *n = sim_node_of(handle);
	struct answer a;

	if (!n || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	a = answer(NULL, dependents, data, nr);
	for (size_t i = 0; i < n->graph->nr; i++) {
		struct sim_node *to = n->graph->nodes[i];

		for (size_t k = 0; k < to->edges.nr; k++)
			if (to->edges.list[k].from == n)
				add(&a, n, to, &to->edges.list[k].data);
	}
	return finish(&a, nr);
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *nr)
{
	return cuGraphGetEdges_v2(handle, from, to, NULL, nr);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies, size_t *nr)
{
	return cuGraphNodeGetDependencies_v2(node, dependencies, NULL, nr);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *dependents, size_t *nr)
{
	return cuGraphNodeGetDependentNodes_v2(node, dependents, NULL, nr);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	struct sim_node *n = sim_node_of(node);

	if (!n || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = n->params.type;
	return CUDA_SUCCESS;
}
