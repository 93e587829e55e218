/* SPDX-License-Identifier: MIT */
/*
 * Executable graphs: clones of the graphs that they were made of, what a launch of them does, and how they
 * are changed. A launch copies, sets, calls host functions, records events and writes values as its nodes
 * say, in their order; kernels count. No kernel sets a condition: a body runs if the value is such that each
 * launch begins with, a loop's once.
 */
#include <stdlib.h>
#include <string.h>

#include "simgpu/graph.h"

enum { EXEC_MAGIC = 0x45584543 };

struct exec {
	uint32_t magic;
	cuuint64_t flags;
	struct sim_graph *graph; /* its own */
};

static struct exec *exec_of(CUgraphExec handle)
{
	struct exec *e = (struct exec *)handle;

	return e && e->magic == EXEC_MAGIC ? e : NULL;
}

/* ---- making and ending ----------------------------------------------------------------------- */

static bool has_unused_condition(const struct sim_graph *g)
{
	for (const struct sim_conditional *c = g->conditionals; c; c = c->next)
		if (!c->is_used)
			return true;
	return false;
}

static CUresult instantiate(CUgraphExec *handle, CUgraph graph, cuuint64_t flags,
			    CUgraphInstantiateResult *result)
{
	struct sim_graph *g = sim_graph_of(graph), *clone;
	struct exec *e;

	*result = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (!g || !handle || g->owner)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_unused_condition(g)) {
		*result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
		return CUDA_ERROR_INVALID_VALUE;
	}
	clone = sim_graph_clone(g);
	if (!clone) {
		*result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
		return CUDA_ERROR_INVALID_VALUE;
	}
	e = sim_zalloc(sizeof(*e));
	*e = (struct exec){ EXEC_MAGIC, flags, clone };
	*handle = (CUgraphExec)e;
	*result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graph, unsigned long long flags)
{
	CUgraphInstantiateResult unused;

	return instantiate(handle, graph, flags, &unused);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *handle, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	return instantiate(handle, graph, params->flags, &params->result_out);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
	struct exec *e = exec_of(handle);

	if (!e || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = e->flags;
	return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
	struct exec *e = exec_of(handle);

	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_release(e->graph);
	e->magic = 0;
	free(e);
	return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream)
{
	(void)stream;
	return exec_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- launching ------------------------------------------------------------------------------- */

static void run(const struct sim_graph *g);

/* The body that a conditional node runs now, or NULL. */
static CUgraph body_of(const struct sim_node *n)
{
	const struct sim_conditional *c = (struct sim_conditional *)(uintptr_t)n->params.conditional.handle;
	unsigned which = c->value;

	if (n->params.conditional.type != CU_GRAPH_COND_TYPE_SWITCH)
		which = c->value ? 0 : 1;
	return which < n->nr_inner ? n->inner[which] : NULL;
}

static void run_node(const struct sim_node *n)
{
	const CUgraphNodeParams *p = &n->params;
	CUgraph inner = NULL;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		sim_launched(1);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		sim_copy_3d(&p->memcpy.copyParams);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		sim_set(p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize,
			p->memset.width, p->memset.height);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		p->host.fn(p->host.userData);
		break;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		cuEventRecordWithFlags(p->eventRecord.event, NULL, CU_EVENT_RECORD_DEFAULT);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		sim_stream_operations(NULL, p->memOp.count, p->memOp.paramArray);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		inner = n->inner[0];
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		inner = body_of(n);
		break;
	default:
		break;
	}
	if (inner)
		run((struct sim_graph *)inner);
}

static void run(const struct sim_graph *g)
{
	for (size_t i = 0; i < g->nr; i++) {
		const struct sim_node *n = g->order ? g->order[i] : g->nodes[i];

		if (!n->is_disabled)
			run_node(n);
	}
}

/* Take and give back the memory that a launch does, of child graphs as well. */
static CUresult run_memory(const struct sim_graph *g, bool auto_free)
{
	CUresult ret = CUDA_SUCCESS;

	if (g->nr_steps)
		ret = sim_graph_memory_launch(g->steps->list, g->nr_steps, auto_free);
	for (size_t i = 0; i < g->nr && !ret; i++)
		if (g->nodes[i]->params.type == CU_GRAPH_NODE_TYPE_GRAPH)
			ret = run_memory((struct sim_graph *)g->nodes[i]->inner[0], auto_free);
	return ret;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
	struct exec *e = exec_of(handle);
	CUresult ret;

	if (!e)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	ret = run_memory(e->graph, e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	if (!ret)
		run(e->graph);
	return ret;
}

/* ---- changing one node ----------------------------------------------------------------------- */

/* E's node that stands for the source's NODE. */
static struct sim_node *node_in(CUgraphExec handle, CUgraphNode node)
{
	struct exec *e = exec_of(handle);

	return e ? sim_graph_find_origin(e->graph, sim_node_of(node)) : NULL;
}

/* Whether a node of an executable graph may go over from OLD to NEW: memory keeps its type, as documented. */
static bool may_become(const CUgraphNodeParams *old, const CUgraphNodeParams *new)
{
	if (old->type != new->type)
		return false;
	if (old->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return old->memcpy.copyParams.srcMemoryType == new->memcpy.copyParams.srcMemoryType &&
		       old->memcpy.copyParams.dstMemoryType == new->memcpy.copyParams.dstMemoryType;
	if (old->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return old->alloc.dptr == new->alloc.dptr;
	return old->type != CU_GRAPH_NODE_TYPE_MEM_FREE || old->free.dptr == new->free.dptr;
}

static CUresult change(struct sim_node *n, const CUgraphNodeParams *params)
{
	CUresult ret = CUDA_ERROR_INVALID_VALUE;

	if (n && params->type != CU_GRAPH_NODE_TYPE_GRAPH && may_become(&n->params, params))
		ret = sim_node_check(params);
	if (!ret)
		sim_node_fill(n, params);
	return ret;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
	return change(node_in(exec, node), params);
}

/* The structures of one kind, as in graph_node.c; what a structure leaves out stays. */
#define EXEC_SET(function, KIND, member, structure)                                                          \
	CUresult function(CUgraphExec exec, CUgraphNode node, const structure *from)                         \
	{                                                                                                    \
		struct sim_node *n = node_in(exec, node);                                                    \
		CUgraphNodeParams params;                                                                    \
                                                                                                             \
		if (!n || !from || n->params.type != CU_GRAPH_NODE_TYPE_##KIND)                              \
			return CUDA_ERROR_INVALID_VALUE;                                                     \
		params = n->params;                                                                          \
		memcpy(&params.member, from, sizeof(*from));                                                 \
		return change(n, &params);                                                                   \
	}

/* clang-format off */
EXEC_SET(cuGraphExecKernelNodeSetParams, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS_v1)
EXEC_SET(cuGraphExecKernelNodeSetParams_v2, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS)
EXEC_SET(cuGraphExecHostNodeSetParams, HOST, host, CUDA_HOST_NODE_PARAMS)
EXEC_SET(cuGraphExecBatchMemOpNodeSetParams, BATCH_MEM_OP, memOp, CUDA_BATCH_MEM_OP_NODE_PARAMS)
/* clang-format on */

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
					CUcontext ctx)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };

	if (!copy)
		return CUDA_ERROR_INVALID_VALUE;
	params.memcpy.copyCtx = ctx;
	params.memcpy.copyParams = *copy;
	return change(node_in(exec, node), &params);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEMSET };

	if (!set)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&params.memset, set, sizeof(*set));
	params.memset.ctx = ctx;
	return change(node_in(exec, node), &params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = { event } };

	return change(node_in(exec, node), &params);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = { event } };

	return change(node_in(exec, node), &params);
}

/* As documented: kernels, copies and memset only. */
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int is_enabled)
{
	struct sim_node *n = node_in(exec, node);

	if (!n || n->params.type > CU_GRAPH_NODE_TYPE_MEMSET)
		return CUDA_ERROR_INVALID_VALUE;
	n->is_disabled = !is_enabled;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *is_enabled)
{
	struct sim_node *n = node_in(exec, node);

	if (!n || !is_enabled || n->params.type > CU_GRAPH_NODE_TYPE_MEMSET)
		return CUDA_ERROR_INVALID_VALUE;
	*is_enabled = !n->is_disabled;
	return CUDA_SUCCESS;
}

/* ---- changing all of it ---------------------------------------------------------------------- */

static CUresult differ(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult why, struct sim_node *node,
		       struct sim_node *from)
{
	info->result = why;
	info->errorNode = (CUgraphNode)node;
	info->errorFromNode = (CUgraphNode)from;
	return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/* Whether OLD and NEW wait for nodes at the same places; else INFO says for which of them only one does. */
static CUresult compare_edges(const struct sim_node *old, struct sim_node *new,
			      CUgraphExecUpdateResultInfo *info)
{
	for (size_t k = 0; k < new->edges.nr; k++) {
		size_t i = 0;

		while (i < old->edges.nr && old->edges.list[i].from->index != new->edges.list[k].from->index)
			i++;
		if (i == old->edges.nr)
			return differ(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, new,
				      new->edges.list[k].from);
	}
	if (old->edges.nr != new->edges.nr)
		return differ(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, new, NULL);
	return CUDA_SUCCESS;
}

/* Nodes are paired in the order in which they were added, as documented for graphs that are captured alike. */
static CUresult compare(const struct sim_graph *old, const struct sim_graph *new,
			CUgraphExecUpdateResultInfo *info)
{
	CUresult ret = CUDA_SUCCESS;

	if (old->nr != new->nr)
		return differ(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
	for (size_t i = 0; i < old->nr && !ret; i++) {
		struct sim_node *a = old->nodes[i], *b = new->nodes[i];

		ret = compare_edges(a, b, info);
		if (!ret && a->params.type != b->params.type)
			ret = differ(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, b, NULL);
		else if (!ret && (!may_become(&a->params, &b->params) || a->nr_inner != b->nr_inner))
			ret = differ(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, b, NULL);
		for (unsigned k = 0; k < a->nr_inner && !ret; k++)
			ret = compare((struct sim_graph *)a->inner[k], (struct sim_graph *)b->inner[k], info);
	}
	return ret;
}

/* TO, which compares equal, gets what FROM has. */
static void take_over(struct sim_graph *to, const struct sim_graph *from)
{
	for (size_t i = 0; i < to->nr; i++) {
		struct sim_node *a = to->nodes[i];
		const struct sim_node *b = from->nodes[i];

		for (unsigned k = 0; k < a->nr_inner; k++)
			take_over((struct sim_graph *)a->inner[k], (const struct sim_graph *)b->inner[k]);
		if (a->nr_inner)
			continue;
		sim_node_fill(a, &b->params);
		a->nr_attributes = 0;
		for (unsigned k = 0; k < b->nr_attributes; k++)
			cuGraphKernelNodeSetAttribute((CUgraphNode)a, b->attributes[k].id,
						      &b->attributes[k].value);
	}
	sim_graph_hold_same(to, from);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	struct exec *e = exec_of(handle);
	struct sim_graph *g = sim_graph_of(graph);
	CUgraphExecUpdateResultInfo unused;
	CUresult ret;

	if (!e || !g || g->owner)
		return CUDA_ERROR_INVALID_VALUE;
	if (!info)
		info = &unused;
	*info = (CUgraphExecUpdateResultInfo){ .result = CU_GRAPH_EXEC_UPDATE_SUCCESS };
	ret = compare(e->graph, g, info);
	if (!ret)
		take_over(e->graph, g);
	return ret;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error,
			   CUgraphExecUpdateResult *result)
{
	CUgraphExecUpdateResultInfo info = { .result = CU_GRAPH_EXEC_UPDATE_ERROR };
	CUresult ret = cuGraphExecUpdate_v2(exec, graph, &info);

	if (error)
		*error = info.errorNode;
	if (result)
		*result = info.result;
	return ret;
}

/* CHILD must have the shape of the child graph that it replaces, as documented. */
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	struct sim_node *n = node_in(exec, node);
	struct sim_graph *g = sim_graph_of(child);
	CUgraphExecUpdateResultInfo info;

	if (!n || !g || n->params.type != CU_GRAPH_NODE_TYPE_GRAPH ||
	    compare((struct sim_graph *)n->inner[0], g, &info))
		return CUDA_ERROR_INVALID_VALUE;
	take_over((struct sim_graph *)n->inner[0], g);
	return CUDA_SUCCESS;
}
