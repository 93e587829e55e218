/* SPDX-License-Identifier: MIT */
/* Graphs: their nodes and edges, and copies of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/graph.h"

enum { GRAPH_MAGIC = 0x47524150, NODE_MAGIC = 0x4e4f4445 };

struct sim_graph *sim_graph_of(CUgraph handle)
{
	struct sim_graph *g = (struct sim_graph *)handle;

	return g && g->magic == GRAPH_MAGIC ? g : NULL;
}

struct sim_node *sim_node_of(CUgraphNode handle)
{
	struct sim_node *n = (struct sim_node *)handle;

	return n && n->magic == NODE_MAGIC ? n : NULL;
}

/* ---- memory of allocation nodes -------------------------------------------------------------- */

static struct sim_graph_steps *steps_get(struct sim_graph_steps *s)
{
	__atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

static void steps_put(struct sim_graph_steps *s)
{
	if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
		return;
	sim_lock();
	for (size_t i = 0; i < s->nr; i++)
		if (!s->list[i].is_free)
			sim_graph_memory_put(s->list[i].address);
	sim_unlock();
	free(s->list);
	free(s);
}

static void steps_add(struct sim_graph_steps *s, CUdeviceptr address, bool is_free)
{
	sim_lock();
	if (s->nr == s->room) {
		s->room = 2 * s->room + 16;
		s->list = sim_realloc(s->list, s->room * sizeof(*s->list));
	}
	s->list[s->nr++] = (struct sim_graph_step){ address, is_free };
	sim_unlock();
}

/* ---- nodes and edges ------------------------------------------------------------------------- */

bool sim_edges_add(struct sim_edges *e, struct sim_node *from, const CUgraphEdgeData *data)
{
	for (size_t i = 0; i < e->nr; i++)
		if (e->list[i].from == from)
			return false;
	if (e->nr == e->room) {
		e->room = 2 * e->room + 2;
		e->list = sim_realloc(e->list, e->room * sizeof(*e->list));
	}
	e->list[e->nr++] = (struct sim_edge){ from, data ? *data : (CUgraphEdgeData){ 0 } };
	return true;
}

void sim_edges_release(struct sim_edges *e)
{
	free(e->list);
	*e = (struct sim_edges){ 0 };
}

CUresult sim_edges_read(struct sim_edges *e, const struct sim_graph *g, const CUgraphNode *nodes,
			const CUgraphEdgeData *data, size_t nr)
{
	*e = (struct sim_edges){ 0 };
	if (nr && !nodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < nr; i++) {
		struct sim_node *n = sim_node_of(nodes[i]);

		if (!n || n->graph != g || !sim_edges_add(e, n, data ? &data[i] : NULL)) {
			sim_edges_release(e);
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return CUDA_SUCCESS;
}

struct sim_node *sim_node_new(struct sim_graph *g, const CUgraphNodeParams *params,
			      const struct sim_edges *edges)
{
	struct sim_node *n = sim_zalloc(sizeof(*n));

	n->magic = NODE_MAGIC;
	n->graph = g;
	n->params.type = params->type;
	sim_node_fill(n, params);
	for (size_t i = 0; edges && i < edges->nr; i++)
		sim_edges_add(&n->edges, edges->list[i].from, &edges->list[i].data);
	sim_lock();
	if (g->nr == g->room) {
		g->room = 2 * g->room + 64;
		g->nodes = sim_realloc(g->nodes, g->room * sizeof(*g->nodes));
	}
	n->index = g->nr;
	g->nodes[g->nr++] = n;
	sim_unlock();
	return n;
}

bool sim_graph_library_kernel(void *handle, bool add)
{
	static const CUgraphNodeParams kernel = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	struct sim_graph *g = sim_graph_of(handle);

	if (g && add)
		sim_node_new(g, &kernel, NULL);
	return g && sim_graph_has(g, CU_GRAPH_NODE_TYPE_KERNEL);
}

static void node_free(struct sim_node *n)
{
	for (unsigned i = 0; i < n->nr_inner; i++)
		sim_graph_release((struct sim_graph *)n->inner[i]);
	sim_node_empty(n);
	sim_edges_release(&n->edges);
	free(n->inner);
	free(n->attributes);
	n->magic = 0;
	free(n);
}

CUdeviceptr sim_graph_add_alloc(struct sim_graph *g, int device, size_t bytes, const struct sim_edges *edges,
				struct sim_node **node)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };

	params.alloc.bytesize = bytes;
	params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.alloc.poolProps.location =
		(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
	params.alloc.dptr = sim_graph_memory_new(device, bytes);
	*node = sim_node_new(g, &params, edges);
	steps_add(g->steps, params.alloc.dptr, false);
	return params.alloc.dptr;
}

CUresult sim_graph_add_free(struct sim_graph *g, CUdeviceptr address, const struct sim_edges *edges,
			    struct sim_node **node)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = { address } };
	bool is_node;

	sim_lock();
	is_node = sim_graph_memory_is(address);
	sim_unlock();
	if (!is_node)
		return CUDA_ERROR_INVALID_VALUE;
	*node = sim_node_new(g, &params, edges);
	steps_add(g->steps, address, true);
	return CUDA_SUCCESS;
}

bool sim_graph_has(const struct sim_graph *g, CUgraphNodeType kind)
{
	for (size_t i = 0; i < g->nr; i++) {
		if (g->nodes[i]->params.type == kind)
			return true;
		for (unsigned k = 0; k < g->nodes[i]->nr_inner; k++)
			if (sim_graph_has((struct sim_graph *)g->nodes[i]->inner[k], kind))
				return true;
	}
	return false;
}

static bool has_memory(const struct sim_graph *g)
{
	return sim_graph_has(g, CU_GRAPH_NODE_TYPE_MEM_ALLOC) ||
	       sim_graph_has(g, CU_GRAPH_NODE_TYPE_MEM_FREE);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

struct sim_graph *sim_graph_new(void)
{
	struct sim_graph *g = sim_zalloc(sizeof(*g));

	g->magic = GRAPH_MAGIC;
	g->steps = sim_zalloc(sizeof(*g->steps));
	g->steps->refs = 1;
	return g;
}

void sim_graph_release(struct sim_graph *g)
{
	sim_graph_let_all_go(g);
	steps_put(g->steps);
	for (size_t i = 0; i < g->nr; i++)
		node_free(g->nodes[i]);
	for (struct sim_conditional *c = g->conditionals, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(g->nodes);
	free(g->order);
	g->magic = 0;
	free(g);
}

/* Nodes in the order in which none comes before one that it waits for; false where edges go in a circle. */
static bool sort(struct sim_graph *g)
{
	bool is_sorted = true;
	size_t nr = 0;

	for (size_t i = 0; i < g->nr; i++)
		for (size_t k = 0; k < g->nodes[i]->edges.nr; k++)
			is_sorted &= g->nodes[i]->edges.list[k].from->index < i;
	if (is_sorted)
		return true;
	g->order = sim_alloc(g->nr * sizeof(*g->order));
	for (size_t i = 0; i < g->nr; i++)
		g->nodes[i]->waits = SIZE_MAX;
	for (size_t before = SIZE_MAX; nr < g->nr && nr != before;) {
		before = nr;
		for (size_t i = 0; i < g->nr; i++) {
			bool is_ready = g->nodes[i]->waits == SIZE_MAX;

			for (size_t k = 0; is_ready && k < g->nodes[i]->edges.nr; k++)
				is_ready = g->nodes[i]->edges.list[k].from->waits != SIZE_MAX;
			if (!is_ready)
				continue;
			g->nodes[i]->waits = nr;
			g->order[nr++] = g->nodes[i];
		}
	}
	return nr == g->nr;
}

/* What FROM has inside, copied; false where an inner graph has no order. */
static bool clone_inside(struct sim_node *to, const struct sim_node *from)
{
	struct sim_conditional *condition;

	to->inner = from->nr_inner ? sim_zalloc(from->nr_inner * sizeof(*to->inner)) : NULL;
	for (unsigned k = 0; k < from->nr_inner; k++) {
		struct sim_graph *inner = sim_graph_clone((struct sim_graph *)from->inner[k]);

		if (!inner)
			return false;
		inner->owner = to;
		to->inner[to->nr_inner++] = (CUgraph)inner;
	}
	if (to->params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
		condition = sim_alloc(sizeof(*condition));
		*condition = *(struct sim_conditional *)(uintptr_t)from->params.conditional.handle;
		condition->next = to->graph->conditionals;
		to->graph->conditionals = condition;
		to->params.conditional.handle = (uintptr_t)condition;
		to->params.conditional.phGraph_out = to->inner;
	} else if (to->nr_inner) {
		to->params.graph.graph = to->inner[0];
	}
	return true;
}

static void clone_attributes(struct sim_node *to, const struct sim_node *from)
{
	if (!from->nr_attributes)
		return;
	to->nr_attributes = from->nr_attributes;
	to->attributes = sim_alloc(from->nr_attributes * sizeof(*to->attributes));
	memcpy(to->attributes, from->attributes, from->nr_attributes * sizeof(*to->attributes));
}

struct sim_graph *sim_graph_clone(struct sim_graph *g)
{
	struct sim_graph *clone = sim_graph_new();
	bool is_good = true;

	steps_put(clone->steps);
	clone->steps = steps_get(g->steps);
	clone->nr_steps = g->steps->nr;
	for (size_t i = 0; i < g->nr && is_good; i++) {
		struct sim_node *to = sim_node_new(clone, &g->nodes[i]->params, NULL);

		to->origin = g->nodes[i];
		clone_attributes(to, g->nodes[i]);
		is_good = clone_inside(to, g->nodes[i]);
	}
	for (size_t i = 0; i < clone->nr && is_good; i++)
		for (size_t k = 0; k < g->nodes[i]->edges.nr; k++)
			sim_edges_add(&clone->nodes[i]->edges,
				      clone->nodes[g->nodes[i]->edges.list[k].from->index],
				      &g->nodes[i]->edges.list[k].data);
	sim_graph_hold_same(clone, g);
	if (!is_good || !sort(clone)) {
		sim_graph_release(clone);
		return NULL;
	}
	return clone;
}

struct sim_node *sim_graph_find_origin(const struct sim_graph *clone, const struct sim_node *origin)
{
	struct sim_node *found = NULL;

	if (!origin)
		return NULL;
	if (origin->index < clone->nr && clone->nodes[origin->index]->origin == origin)
		return clone->nodes[origin->index];
	for (size_t i = 0; i < clone->nr && !found; i++) {
		if (clone->nodes[i]->origin == origin)
			return clone->nodes[i];
		for (unsigned k = 0; k < clone->nodes[i]->nr_inner && !found; k++)
			found = sim_graph_find_origin((struct sim_graph *)clone->nodes[i]->inner[k], origin);
	}
	return found;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = (CUgraph)sim_graph_new();
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle)
{
	struct sim_graph *g = sim_graph_of(handle);

	if (!g || g->owner)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_release(g);
	return CUDA_SUCCESS;
}

/* As documented: not of graphs with nodes that allocate or free, nor with conditional ones. */
CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
	struct sim_graph *g = sim_graph_of(original), *copy;

	if (!g || !clone || has_memory(g) || sim_graph_has(g, CU_GRAPH_NODE_TYPE_CONDITIONAL))
		return CUDA_ERROR_INVALID_VALUE;
	copy = sim_graph_clone(g);
	*clone = (CUgraph)copy;
	return copy ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone)
{
	struct sim_graph *g = sim_graph_of(clone);
	struct sim_node *found = g && node ? sim_graph_find_origin(g, sim_node_of(original)) : NULL;

	if (found)
		*node = (CUgraphNode)found;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- changing it ----------------------------------------------------------------------------- */

CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *data, size_t nr)
{
	struct sim_graph *g = sim_graph_of(handle);

	if (!g || (nr && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < nr; i++) {
		struct sim_node *a = sim_node_of(from[i]), *b = sim_node_of(to[i]);

		if (!a || !b || a == b || a->graph != g || b->graph != g ||
		    !sim_edges_add(&b->edges, a, data ? &data[i] : NULL))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static bool remove_edge(struct sim_node *to, const struct sim_node *from)
{
	for (size_t k = 0; k < to->edges.nr; k++) {
		if (to->edges.list[k].from != from)
			continue;
		to->edges.nr--;
		memmove(&to->edges.list[k], &to->edges.list[k + 1],
			(to->edges.nr - k) * sizeof(*to->edges.list));
		return true;
	}
	return false;
}

/* As documented: not in graphs with nodes that allocate or free. */
CUresult cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
				      const CUgraphEdgeData *data, size_t nr)
{
	struct sim_graph *g = sim_graph_of(handle);

	(void)data;
	if (!g || (nr && (!from || !to)) || (nr && has_memory(g)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < nr; i++) {
		struct sim_node *a = sim_node_of(from[i]), *b = sim_node_of(to[i]);

		if (!a || !b || a->graph != g || b->graph != g || !remove_edge(b, a))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t nr)
{
	return cuGraphAddDependencies_v2(graph, from, to, NULL, nr);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t nr)
{
	return cuGraphRemoveDependencies_v2(graph, from, to, NULL, nr);
}

/* As documented: not in graphs with nodes that allocate or free. */
CUresult cuGraphDestroyNode(CUgraphNode handle)
{
	struct sim_node *n = sim_node_of(handle);
	struct sim_graph *g = n ? n->graph : NULL;

	if (!n || has_memory(g))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->nr; i++)
		remove_edge(g->nodes[i], n);
	g->nr--;
	for (size_t i = n->index; i < g->nr; i++) {
		g->nodes[i] = g->nodes[i + 1];
		g->nodes[i]->index = i;
	}
	node_free(n);
	return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
	struct sim_graph *g = sim_graph_of(handle);
	FILE *f;

	(void)flags;
	if (!g || !path)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(path, "we");
	if (!f)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(f, "digraph simulated {\n");
	for (size_t i = 0; i < g->nr; i++) {
		fprintf(f, "\tn%zu [label=\"type %d\"];\n", i, (int)g->nodes[i]->params.type);
		for (size_t k = 0; k < g->nodes[i]->edges.nr; k++)
			fprintf(f, "\tn%zu -> n%zu;\n", g->nodes[i]->edges.list[k].from->index, i);
	}
	fprintf(f, "}\n");
	return fclose(f) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
