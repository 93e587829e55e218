/* SPDX-License-Identifier: MIT */
/* Graphs: how many nodes of which kind, and the memory that their allocation nodes own. */
#include <stdio.h>
#include <stdlib.h>

#include "simgpu/internal.h"

enum { GRAPH_MAGIC = 0x47524150, EXEC_MAGIC = 0x45584543 };

/* Memory of allocation nodes: shared by a graph and what was instantiated from it. */
struct memory {
	unsigned refs;
	size_t nr, room;
	CUdeviceptr *v;
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
	struct memory *memory;
};

static struct memory *memory_get(struct memory *m)
{
	__atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
	return m;
}

static void memory_put(struct memory *m)
{
	struct sim_block block;

	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	sim_lock();
	for (size_t i = 0; i < m->nr; i++) {
		struct sim_block *found = sim_blocks_find(&sim_blocks, m->v[i]);

		/* The program may have freed it since, with cuMemFree. */
		if (found && found->kind == SIM_POOLED && sim_blocks_remove(&sim_blocks, m->v[i], &block))
			sim_pool_release(&block);
	}
	sim_unlock();
	free(m->v);
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

void sim_graph_own(struct sim_graph *g, CUdeviceptr p)
{
	struct memory *m = g->memory;

	sim_lock();
	if (m->nr == m->room) {
		m->room = 2 * m->room + 16;
		m->v = sim_realloc(m->v, m->room * sizeof(*m->v));
	}
	m->v[m->nr++] = p;
	sim_unlock();
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

/* ---- instantiated graphs --------------------------------------------------------------------- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graph, unsigned long long flags)
{
	struct sim_graph *g = graph_of(graph);
	struct exec *e;

	(void)flags;
	if (!g || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	e = sim_zalloc(sizeof(*e));
	e->magic = EXEC_MAGIC;
	e->memory = memory_get(g->memory);
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

	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_launched(e->launches);
	return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream)
{
	(void)stream;
	return exec_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Graph memory comes from the device's default pool here, and nothing of it is kept beyond the graph. */
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	return device >= 0 && device < sim_nr_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	(void)attribute;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	*(cuuint64_t *)value = 0;
	return device >= 0 && device < sim_nr_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	(void)attribute;
	(void)value;
	return device >= 0 && device < sim_nr_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
