/* SPDX-License-Identifier: MIT */
/* Graphs: how many nodes of which kind, and what their launches do to the memory of allocation nodes. */
#include <stdio.h>
#include <stdlib.h>

#include "simgpu/internal.h"

enum { GRAPH_MAGIC = 0x47524150, EXEC_MAGIC = 0x45584543 };

/* What launches do to the memory of allocation nodes: shared by a graph and what was instantiated from it. */
struct memory {
	unsigned refs;
	size_t nr, room;
	struct sim_graph_step *steps;
};

struct node {
	enum sim_node_kind kind;
};

struct sim_graph {
	uint32_t magic;
	size_t nr, room;
	struct node **nodes;
	struct memory *memory;
};

struct exec {
	uint32_t magic;
	unsigned long launches;		/* kernel nodes */
	bool auto_free;
	struct memory *memory;
	size_t nr_steps;		/* of memory's, when it was instantiated */
};

static struct memory *memory_get(struct memory *m)
{
	__atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
	return m;
}

static void memory_put(struct memory *m)
{
	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	sim_lock();
	for (size_t i = 0; i < m->nr; i++)
		if (!m->steps[i].is_free)
			sim_graph_memory_put(m->steps[i].address);
	sim_unlock();
	free(m->steps);
	free(m);
}

struct sim_graph *sim_graph_new(void)
{
	struct sim_graph *g = sim_zalloc(sizeof(*g));

	g->magic = GRAPH_MAGIC;
	g->memory = sim_zalloc(sizeof(*g->memory));
	g->memory->refs = 1;
	return g;
}

void sim_graph_release(struct sim_graph *g)
{
	memory_put(g->memory);
	for (size_t i = 0; i < g->nr; i++)
		free(g->nodes[i]);
	free(g->nodes);
	g->magic = 0;
	free(g);
}

void sim_graph_add(struct sim_graph *g, enum sim_node_kind kind)
{
	sim_lock();
	if (g->nr == g->room) {
		g->room = 2 * g->room + 64;
		g->nodes = sim_realloc(g->nodes, g->room * sizeof(*g->nodes));
	}
	g->nodes[g->nr] = sim_alloc(sizeof(**g->nodes));
	g->nodes[g->nr++]->kind = kind;
	sim_unlock();
}

static void memory_add(struct memory *m, CUdeviceptr address, bool is_free)
{
	sim_lock();
	if (m->nr == m->room) {
		m->room = 2 * m->room + 16;
		m->steps = sim_realloc(m->steps, m->room * sizeof(*m->steps));
	}
	m->steps[m->nr++] = (struct sim_graph_step){ address, is_free };
	sim_unlock();
}

CUdeviceptr sim_graph_add_alloc(struct sim_graph *g, int device, size_t bytes)
{
	CUdeviceptr p = sim_graph_memory_new(device, bytes);

	sim_graph_add(g, SIM_NODE_MEM_ALLOC);
	memory_add(g->memory, p, false);
	return p;
}

CUresult sim_graph_add_free(struct sim_graph *g, CUdeviceptr address)
{
	bool is_node;

	sim_lock();
	is_node = sim_graph_memory_is(address);
	sim_unlock();
	if (!is_node)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_add(g, SIM_NODE_MEM_FREE);
	memory_add(g->memory, address, true);
	return CUDA_SUCCESS;
}

static struct sim_graph *graph_of(CUgraph handle)
{
	struct sim_graph *g = (struct sim_graph *)handle;

	return g && g->magic == GRAPH_MAGIC ? g : NULL;
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
	struct sim_graph *g = graph_of(handle);

	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_release(g);
	return CUDA_SUCCESS;
}

/* Copies handles of up to *NR nodes, or with NODES NULL says how many there are. */
CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *nr)
{
	struct sim_graph *g = graph_of(handle);

	if (!g || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *nr; i++)
		nodes[i] = i < g->nr ? (CUgraphNode)g->nodes[i] : NULL;
	if (!nodes || *nr > g->nr)
		*nr = g->nr;
	return CUDA_SUCCESS;
}

/* Edges are not kept: every node is a root. */
CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode *nodes, size_t *nr)
{
	return cuGraphGetNodes(handle, nodes, nr);
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
			    size_t *nr)
{
	(void)from;
	(void)to;
	(void)data;
	if (!graph_of(handle) || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	*nr = 0;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies, CUgraphEdgeData *edges,
				       size_t *nr)
{
	(void)dependencies;
	(void)edges;
	if (!node || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	*nr = 0;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = (CUgraphNodeType)((struct node *)node)->kind;
	return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
	struct sim_graph *g = graph_of(handle);
	FILE *f;

	(void)flags;
	if (!g || !path)
		return CUDA_ERROR_INVALID_VALUE;
	f = fopen(path, "we");
	if (!f)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(f, "digraph simulated {\n");
	for (size_t i = 0; i < g->nr; i++)
		fprintf(f, "\tn%zu [label=\"type %d\"];\n", i, (int)g->nodes[i]->kind);
	fprintf(f, "}\n");
	return fclose(f) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* ---- nodes that programs add by themselves --------------------------------------------------- */

static CUgraphNode latest_node(const struct sim_graph *g)
{
	return (CUgraphNode)g->nodes[g->nr - 1];
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct sim_graph *g = graph_of(graph);

	(void)dependencies;
	(void)nr;
	if (!g || !node || !params || !params->bytesize || params->bytesize > SIM_CAPACITY_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    params->poolProps.location.id < 0 || params->poolProps.location.id >= sim_nr_devices())
		return CUDA_ERROR_INVALID_VALUE;
	params->dptr = sim_graph_add_alloc(g, params->poolProps.location.id, params->bytesize);
	*node = latest_node(g);
	return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,
			       CUdeviceptr dptr)
{
	struct sim_graph *g = graph_of(graph);
	CUresult ret = g && node ? sim_graph_add_free(g, dptr) : CUDA_ERROR_INVALID_VALUE;

	(void)dependencies;
	(void)nr;
	if (!ret)
		*node = latest_node(g);
	return ret;
}

/* Nodes of memory, and those that do nothing here; copies and host functions have to be captured. */
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t nr, CUgraphNodeParams *params)
{
	struct sim_graph *g = graph_of(graph);
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { 0 };
	CUresult ret;

	(void)edges;
	if (!g || !node || !params)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		alloc.poolProps = params->alloc.poolProps;
		alloc.bytesize = params->alloc.bytesize;
		ret = cuGraphAddMemAllocNode(node, graph, dependencies, nr, &alloc);
		params->alloc.dptr = alloc.dptr;
		return ret;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(node, graph, dependencies, nr, params->free.dptr);
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_EMPTY:
		sim_graph_add(g, (enum sim_node_kind)params->type);
		*node = latest_node(g);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* ---- instantiated graphs --------------------------------------------------------------------- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graph, unsigned long long flags)
{
	struct sim_graph *g = graph_of(graph);
	struct exec *e;

	if (!g || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	e = sim_zalloc(sizeof(*e));
	e->magic = EXEC_MAGIC;
	e->auto_free = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	e->memory = memory_get(g->memory);
	e->nr_steps = g->memory->nr;
	for (size_t i = 0; i < g->nr; i++)
		e->launches += g->nodes[i]->kind == SIM_NODE_KERNEL;
	*handle = (CUgraphExec)e;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *handle, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult ret =
	    params ? cuGraphInstantiateWithFlags(handle, graph, params->flags) : CUDA_ERROR_INVALID_VALUE;

	if (params) {
		params->hErrNode_out = NULL;
		params->result_out = ret ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	}
	return ret;
}

static struct exec *exec_of(CUgraphExec handle)
{
	struct exec *e = (struct exec *)handle;

	return e && e->magic == EXEC_MAGIC ? e : NULL;
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
	struct exec *e = exec_of(handle);

	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	memory_put(e->memory);
	e->magic = 0;
	free(e);
	return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
	struct exec *e = exec_of(handle);
	CUresult ret;

	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	ret = e->nr_steps ? sim_graph_memory_launch(e->memory->steps, e->nr_steps, e->auto_free) : CUDA_SUCCESS;
	if (!ret)
		sim_launched(e->launches);
	return ret;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream)
{
	(void)stream;
	return exec_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
