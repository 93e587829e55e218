/* SPDX-License-Identifier: MIT */
/*
 * Nodes' parameters: what each kind of node was given, may be given, and answers. Arguments of kernels are
 * kept only where they come in one piece of a stated size (CU_LAUNCH_PARAM_BUFFER_POINTER): how long each one
 * of an array is, only the kernel's code says. A node then answers that it has none.
 */
#include <stdlib.h>
#include <string.h>

#include "simgpu/graph.h"

enum { OPERATIONS_MAX = 256 };

/* ---- checking and keeping -------------------------------------------------------------------- */

static CUresult check_kernel(const CUDA_KERNEL_NODE_PARAMS_v3 *k)
{
	CUfunction function = k->func ? k->func : (CUfunction)k->kern;

	if (k->kernelParams && k->extra)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_kernel_check(function, (unsigned long long)k->gridDimX * k->gridDimY * k->gridDimZ,
				(unsigned long long)k->blockDimX * k->blockDimY * k->blockDimZ,
				k->sharedMemBytes);
}

static bool valid_memory(CUmemorytype type)
{
	return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

static CUresult check_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *m)
{
	bool is_good = m->dst && m->width && m->height &&
		       (m->elementSize == 1 || m->elementSize == 2 || m->elementSize == 4) &&
		       (m->height == 1 || m->pitch >= m->width * m->elementSize);

	return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A child is copied, or moved into its node when it has conditional nodes or those that allocate. */
static CUresult check_child(const CUDA_CHILD_GRAPH_NODE_PARAMS *c)
{
	struct sim_graph *g = sim_graph_of(c->graph);
	bool is_moved = c->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;

	if (!g || (g->owner && is_moved) || sim_graph_has(g, CU_GRAPH_NODE_TYPE_CONDITIONAL))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_moved &&
	    (sim_graph_has(g, CU_GRAPH_NODE_TYPE_MEM_ALLOC) || sim_graph_has(g, CU_GRAPH_NODE_TYPE_MEM_FREE)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_node_check(const CUgraphNodeParams *p)
{
	bool is_good = true;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return check_kernel(&p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		is_good = valid_memory(p->memcpy.copyParams.srcMemoryType) &&
			  valid_memory(p->memcpy.copyParams.dstMemoryType) && !p->memcpy.flags;
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return check_memset(&p->memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		is_good = p->host.fn;
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return check_child(&p->graph);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		break;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		is_good = sim_event_is(p->eventWait.event);
		break;
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		is_good = p->memOp.count <= OPERATIONS_MAX && (p->memOp.paramArray || !p->memOp.count) &&
			  !p->memOp.flags;
		break;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void sim_node_empty(struct sim_node *n)
{
	free(n->kept);
	n->kept = NULL;
}

/* Arguments of a kernel in one piece, with the list that names it, or NULL. */
static void *keep_arguments(void **extra)
{
	const void *arguments = NULL;
	size_t bytes = 0;
	struct {
		void *extra[5];
		size_t bytes;
		char arguments[];
	} * kept;

	for (int i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			arguments = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(size_t *)extra[i + 1];
		else
			return NULL;
	}
	if (!arguments || !bytes)
		return NULL;
	kept = sim_alloc(sizeof(*kept) + bytes);
	kept->bytes = bytes;
	memcpy(kept->arguments, arguments, bytes);
	kept->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	kept->extra[1] = kept->arguments;
	kept->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	kept->extra[3] = &kept->bytes;
	kept->extra[4] = CU_LAUNCH_PARAM_END;
	return kept;
}

void sim_node_fill(struct sim_node *n, const CUgraphNodeParams *p)
{
	void *kept = NULL;
	size_t bytes;

	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		kept = keep_arguments(p->kernel.extra);
	} else if (p->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && p->memOp.count) {
		bytes = p->memOp.count * sizeof(*p->memOp.paramArray);
		kept = memcpy(sim_alloc(bytes), p->memOp.paramArray, bytes);
	}
	n->params = *p;
	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		n->params.kernel.extra = kept;
		n->params.kernel.kernelParams = NULL;
	} else if (p->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
		n->params.memOp.paramArray = kept;
	}
	sim_node_empty(n);
	n->kept = kept;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* CHILD, a copy of one or moved, becomes N's inner graph. */
static void adopt(struct sim_node *n, struct sim_graph *child)
{
	n->inner = sim_alloc(sizeof(*n->inner));
	n->inner[0] = (CUgraph)child;
	n->nr_inner = 1;
	n->params.graph.graph = (CUgraph)child;
	child->owner = n;
}

/* Is `inner` a graph of one of OUTER's nodes, or of one of theirs? */
static bool lies_within(const struct sim_graph *inner, const struct sim_graph *outer)
{
	const struct sim_graph *g = inner;

	while (g && g != outer)
		g = g->owner ? g->owner->graph : NULL;
	return g;
}

static CUresult add_child(struct sim_node **node, struct sim_graph *g, const struct sim_edges *edges,
			  CUgraphNodeParams *p)
{
	struct sim_graph *child = (struct sim_graph *)p->graph.graph;
	bool is_moved = p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;

	if (child == g || (is_moved && lies_within(g, child)))
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_moved)
		child = sim_graph_clone(child);
	if (!child)
		return CUDA_ERROR_INVALID_VALUE;
	*node = sim_node_new(g, p, edges);
	adopt(*node, child);
	return CUDA_SUCCESS;
}

static CUresult add_alloc(struct sim_node **node, struct sim_graph *g, const struct sim_edges *edges,
			  CUDA_MEM_ALLOC_NODE_PARAMS *alloc)
{
	const CUmemLocation *where = &alloc->poolProps.location;

	if (!alloc->bytesize || alloc->bytesize > SIM_CAPACITY_MAX ||
	    where->type != CU_MEM_LOCATION_TYPE_DEVICE || where->id < 0 || where->id >= sim_nr_devices())
		return CUDA_ERROR_INVALID_VALUE;
	alloc->dptr = sim_graph_add_alloc(g, where->id, alloc->bytesize, edges, node);
	return CUDA_SUCCESS;
}

/* The handle of a conditional node, if it is one of G's that no node has. */
static struct sim_conditional *unused(struct sim_graph *g, CUgraphConditionalHandle handle)
{
	for (struct sim_conditional *c = g->conditionals; c; c = c->next)
		if ((uintptr_t)c == handle)
			return c->is_used ? NULL : c;
	return NULL;
}

static CUresult add_conditional(struct sim_node **node, struct sim_graph *g, const struct sim_edges *edges,
				CUgraphNodeParams *p)
{
	CUDA_CONDITIONAL_NODE_PARAMS *c = &p->conditional;
	struct sim_conditional *condition = unused(g, c->handle);
	const unsigned most = c->type == CU_GRAPH_COND_TYPE_IF      ? 2
			      : c->type == CU_GRAPH_COND_TYPE_WHILE ? 1
								    : 4096;
	struct sim_node *n;

	if (!condition || (unsigned)c->type > CU_GRAPH_COND_TYPE_SWITCH || !c->size || c->size > most)
		return CUDA_ERROR_INVALID_VALUE;
	condition->is_used = true;
	n = sim_node_new(g, p, edges);
	n->inner = sim_alloc(c->size * sizeof(*n->inner));
	for (; n->nr_inner < c->size; n->nr_inner++) {
		struct sim_graph *body = sim_graph_new();

		body->owner = n;
		n->inner[n->nr_inner] = (CUgraph)body;
	}
	c->phGraph_out = n->params.conditional.phGraph_out = n->inner;
	*node = n;
	return CUDA_SUCCESS;
}

static CUresult add_of_kind(struct sim_node **node, struct sim_graph *g, const struct sim_edges *edges,
			    CUgraphNodeParams *p)
{
	CUresult ret;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_alloc(node, g, edges, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return sim_graph_add_free(g, p->free.dptr, edges, node);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return add_conditional(node, g, edges, p);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: /* not simulated, and counted under this name */
		return cuGraphAddExternalSemaphoresSignalNode(NULL, NULL, NULL, 0, NULL);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return cuGraphAddExternalSemaphoresWaitNode(NULL, NULL, NULL, 0, NULL);
	default:
		ret = sim_node_check(p);
	}
	if (!ret && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return add_child(node, g, edges, p);
	if (!ret)
		*node = sim_node_new(g, p, edges);
	return ret;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *data, size_t nr, CUgraphNodeParams *params)
{
	struct sim_graph *g = sim_graph_of(graph);
	struct sim_node *n = NULL;
	struct sim_edges edges;
	CUresult ret = CUDA_ERROR_INVALID_VALUE;

	if (g && node && params)
		ret = sim_edges_read(&edges, g, dependencies, data, nr);
	if (ret)
		return ret;
	ret = add_of_kind(&n, g, &edges, params);
	sim_edges_release(&edges);
	if (!ret)
		*node = (CUgraphNode)n;
	return ret;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext ctx,
					unsigned int value, unsigned int flags)
{
	struct sim_graph *g = sim_graph_of(graph);
	struct sim_conditional *c;

	(void)ctx;
	if (!g || !handle || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	c = sim_zalloc(sizeof(*c));
	c->value = flags & CU_GRAPH_COND_ASSIGN_DEFAULT ? value : 0;
	c->next = g->conditionals;
	g->conditionals = c;
	*handle = (uintptr_t)c;
	return CUDA_SUCCESS;
}

/* ---- changing -------------------------------------------------------------------------------- */

CUresult cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams *params)
{
	struct sim_node *n = sim_node_of(handle);
	CUresult ret;

	if (!n || !params || params->type != n->params.type || params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	ret = sim_node_check(params);
	if (!ret)
		sim_node_fill(n, params);
	return ret;
}

/* The parameters of a node of KIND, or NULL. */
static CUgraphNodeParams *params_of(CUgraphNode node, CUgraphNodeType kind)
{
	struct sim_node *n = sim_node_of(node);

	return n && n->params.type == kind ? &n->params : NULL;
}

/*
 * The functions of one kind: KIND's member of CUgraphNodeParams has the type of their structure. Add takes
 * what follows the dependencies as PARAMETERS and makes the member of it; get copies it to OUT.
 */
#define NODE_ADD(function, KIND, member, value, ...)                                                         \
	CUresult function(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,      \
			  __VA_ARGS__)                                                                       \
	{                                                                                                    \
		CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_##KIND };                            \
                                                                                                             \
		params.member = value;                                                                       \
		return cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, &params);                      \
	}

#define NODE_ADD_FROM(function, KIND, member, structure)                                                     \
	CUresult function(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,      \
			  const structure *from)                                                             \
	{                                                                                                    \
		CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_##KIND };                            \
                                                                                                             \
		if (!from)                                                                                   \
			return CUDA_ERROR_INVALID_VALUE;                                                     \
		memcpy(&params.member, from, sizeof(*from));                                                 \
		return cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, &params);                      \
	}

#define NODE_GET(function, KIND, member, structure)                                                          \
	CUresult function(CUgraphNode node, structure *out)                                                  \
	{                                                                                                    \
		CUgraphNodeParams *params = params_of(node, CU_GRAPH_NODE_TYPE_##KIND);                      \
                                                                                                             \
		if (!params || !out)                                                                         \
			return CUDA_ERROR_INVALID_VALUE;                                                     \
		memcpy(out, &params->member, sizeof(*out));                                                  \
		return CUDA_SUCCESS;                                                                         \
	}

#define NODE_SET(function, KIND, member, structure)                                                          \
	CUresult function(CUgraphNode node, const structure *from)                                           \
	{                                                                                                    \
		CUgraphNodeParams *old = params_of(node, CU_GRAPH_NODE_TYPE_##KIND), params;                 \
                                                                                                             \
		if (!old || !from)                                                                           \
			return CUDA_ERROR_INVALID_VALUE;                                                     \
		params = *old;                                                                               \
		memcpy(&params.member, from, sizeof(*from));                                                 \
		return cuGraphNodeSetParams(node, &params);                                                  \
	}

/* clang-format off */
NODE_ADD_FROM(cuGraphAddKernelNode, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS_v1)
NODE_ADD_FROM(cuGraphAddKernelNode_v2, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS)
NODE_GET(cuGraphKernelNodeGetParams, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS_v1)
NODE_GET(cuGraphKernelNodeGetParams_v2, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS)
NODE_SET(cuGraphKernelNodeSetParams, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS_v1)
NODE_SET(cuGraphKernelNodeSetParams_v2, KERNEL, kernel, CUDA_KERNEL_NODE_PARAMS)
NODE_GET(cuGraphMemcpyNodeGetParams, MEMCPY, memcpy.copyParams, CUDA_MEMCPY3D)
NODE_SET(cuGraphMemcpyNodeSetParams, MEMCPY, memcpy.copyParams, CUDA_MEMCPY3D)
NODE_GET(cuGraphMemsetNodeGetParams, MEMSET, memset, CUDA_MEMSET_NODE_PARAMS)
NODE_SET(cuGraphMemsetNodeSetParams, MEMSET, memset, CUDA_MEMSET_NODE_PARAMS)
NODE_ADD_FROM(cuGraphAddHostNode, HOST, host, CUDA_HOST_NODE_PARAMS)
NODE_GET(cuGraphHostNodeGetParams, HOST, host, CUDA_HOST_NODE_PARAMS)
NODE_SET(cuGraphHostNodeSetParams, HOST, host, CUDA_HOST_NODE_PARAMS)
NODE_ADD(cuGraphAddChildGraphNode, GRAPH, graph.graph, child, CUgraph child)
NODE_GET(cuGraphChildGraphNodeGetGraph, GRAPH, graph.graph, CUgraph)
NODE_ADD(cuGraphAddEventRecordNode, EVENT_RECORD, eventRecord.event, event, CUevent event)
NODE_GET(cuGraphEventRecordNodeGetEvent, EVENT_RECORD, eventRecord.event, CUevent)
NODE_ADD(cuGraphAddEventWaitNode, WAIT_EVENT, eventWait.event, event, CUevent event)
NODE_GET(cuGraphEventWaitNodeGetEvent, WAIT_EVENT, eventWait.event, CUevent)
NODE_ADD_FROM(cuGraphAddBatchMemOpNode, BATCH_MEM_OP, memOp, CUDA_BATCH_MEM_OP_NODE_PARAMS)
NODE_GET(cuGraphBatchMemOpNodeGetParams, BATCH_MEM_OP, memOp, CUDA_BATCH_MEM_OP_NODE_PARAMS)
NODE_SET(cuGraphBatchMemOpNodeSetParams, BATCH_MEM_OP, memOp, CUDA_BATCH_MEM_OP_NODE_PARAMS)
NODE_GET(cuGraphMemAllocNodeGetParams, MEM_ALLOC, alloc, CUDA_MEM_ALLOC_NODE_PARAMS)
NODE_ADD(cuGraphAddMemFreeNode, MEM_FREE, free.dptr, p, CUdeviceptr p)
NODE_GET(cuGraphMemFreeNodeGetParams, MEM_FREE, free.dptr, CUdeviceptr)
/* clang-format on */

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = { event } };

	return cuGraphNodeSetParams(node, &params);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = { event } };

	return cuGraphNodeSetParams(node, &params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_EMPTY };

	return cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, &params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,
			      const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };

	if (!copy)
		return CUDA_ERROR_INVALID_VALUE;
	params.memcpy.copyCtx = ctx;
	params.memcpy.copyParams = *copy;
	return cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, &params);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,
			      const CUDA_MEMSET_NODE_PARAMS *set, CUcontext ctx)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEMSET };

	if (!set)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&params.memset, set, sizeof(*set));
	params.memset.ctx = ctx;
	return cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, &params);
}

/* The address comes back in PARAMS. */
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,
				CUDA_MEM_ALLOC_NODE_PARAMS *alloc)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUresult ret;

	if (!alloc)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&params.alloc, alloc, sizeof(*alloc));
	ret = cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, &params);
	if (!ret)
		alloc->dptr = params.alloc.dptr;
	return ret;
}

/* ---- attributes of kernels: kept, and without an effect -------------------------------------- */

static CUlaunchAttribute *find_attribute(struct sim_node *n, CUlaunchAttributeID id)
{
	for (unsigned i = 0; i < n->nr_attributes; i++)
		if (n->attributes[i].id == id)
			return &n->attributes[i];
	return NULL;
}

static struct sim_node *kernel_of(CUgraphNode node)
{
	return params_of(node, CU_GRAPH_NODE_TYPE_KERNEL) ? sim_node_of(node) : NULL;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
				       const CUkernelNodeAttrValue *value)
{
	struct sim_node *n = kernel_of(node);
	CUlaunchAttribute *a;

	if (!n || !value || (unsigned)id >= CU_LAUNCH_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	a = find_attribute(n, id);
	if (!a) {
		n->attributes = sim_realloc(n->attributes, (n->nr_attributes + 1) * sizeof(*a));
		a = &n->attributes[n->nr_attributes++];
		a->id = id;
	}
	a->value = *value;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue *value)
{
	struct sim_node *n = kernel_of(node);
	CUlaunchAttribute *a;

	if (!n || !value || (unsigned)id >= CU_LAUNCH_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	a = find_attribute(n, id);
	memset(value, 0, sizeof(*value));
	if (a)
		*value = a->value;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
	struct sim_node *source = kernel_of(from);

	if (!source || !kernel_of(to))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < source->nr_attributes; i++)
		cuGraphKernelNodeSetAttribute(to, source->attributes[i].id, &source->attributes[i].value);
	return CUDA_SUCCESS;
}
