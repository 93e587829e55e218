/* SPDX-License-Identifier: MIT */
/* Nodes of the runtime half's graphs: adding them, and their parameters. */
#include <string.h>

#include "simgpu/runtime_graph.h"

SAME_LAYOUT(struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS);
SAME_LAYOUT(struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_LAYOUT(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_LAYOUT(struct cudaGraphNodeParams, CUgraphNodeParams);
SAME_LAYOUT(cudaLaunchAttributeValue, CUlaunchAttributeValue);
_Static_assert(offsetof(struct cudaGraphNodeParams, conditional.phGraph_out) ==
		       offsetof(CUgraphNodeParams, conditional.phGraph_out),
	       "the same layout");
_Static_assert(offsetof(struct cudaGraphNodeParams, alloc.dptr) == offsetof(CUgraphNodeParams, alloc.dptr),
	       "the same layout");

/* ---- structures that differ ------------------------------------------------------------------ */

cudaError_t sim_runtime_graph_kernel(const struct cudaKernelNodeParams *from, CUDA_KERNEL_NODE_PARAMS *to)
{
	memset(to, 0, sizeof(*to));
	if (!from)
		return cudaErrorInvalidValue;
	to->gridDimX = from->gridDim.x;
	to->gridDimY = from->gridDim.y;
	to->gridDimZ = from->gridDim.z;
	to->blockDimX = from->blockDim.x;
	to->blockDimY = from->blockDim.y;
	to->blockDimZ = from->blockDim.z;
	to->sharedMemBytes = from->sharedMemBytes;
	to->kernelParams = from->kernelParams;
	to->extra = from->extra;
	return sim_runtime_function(from->func, &to->func);
}

static void kernel_back(const CUDA_KERNEL_NODE_PARAMS *from, struct cudaKernelNodeParams *to)
{
	to->func = (void *)(uintptr_t)sim_runtime_host(from->func ? from->func : (CUfunction)from->kern);
	to->gridDim = (dim3){ from->gridDimX, from->gridDimY, from->gridDimZ };
	to->blockDim = (dim3){ from->blockDimX, from->blockDimY, from->blockDimZ };
	to->sharedMemBytes = from->sharedMemBytes;
	to->kernelParams = from->kernelParams;
	to->extra = from->extra;
}

SAME_LAYOUT(struct cudaKernelNodeParams, struct cudaKernelNodeParamsV2);

cudaError_t sim_runtime_graph_node(const struct cudaGraphNodeParams *from, CUgraphNodeParams *to)
{
	CUDA_KERNEL_NODE_PARAMS k;
	cudaError_t e = cudaSuccess;

	if (!from)
		return cudaErrorInvalidValue;
	memcpy(to, from, sizeof(*to));
	if (from->type == cudaGraphNodeTypeKernel) {
		memset(&to->kernel, 0, sizeof(to->kernel));
		e = sim_runtime_graph_kernel((const struct cudaKernelNodeParams *)&from->kernel, &k);
		memcpy(&to->kernel, &k, sizeof(k));
	} else if (from->type == cudaGraphNodeTypeMemcpy) {
		memset(&to->memcpy, 0, sizeof(to->memcpy));
		e = sim_runtime_copy(&from->memcpy.copyParams, &to->memcpy.copyParams);
	} else if (from->type == cudaGraphNodeTypeMemset) {
		to->memset.ctx = NULL;
	}
	return e;
}

/* CUDA 12's name of what has lost its suffix in CUDA 13. */
SIM_EXPORT cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph,
					   const cudaGraphNode_t *dependencies, const cudaGraphEdgeData *data,
					   size_t nr, struct cudaGraphNodeParams *params);

/* ---- adding nodes ---------------------------------------------------------------------------- */

/* What the driver fills in comes back: an address, graphs. */
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
				const cudaGraphEdgeData *data, size_t nr, struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams made;
	cudaError_t e = RUNTIME_WITH(
		sim_runtime_graph_node(params, &made),
		cuGraphAddNode_v2(out, graph, dependencies, (const CUgraphEdgeData *)data, nr, &made));

	if (!e && params->type == cudaGraphNodeTypeMemAlloc)
		params->alloc.dptr = (void *)made.alloc.dptr;
	else if (!e && params->type == cudaGraphNodeTypeConditional)
		params->conditional.phGraph_out = made.conditional.phGraph_out;
	return e;
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
			     const cudaGraphEdgeData *data, size_t nr, struct cudaGraphNodeParams *params)
{
	if (sim_runtime_is_twelve())
		return cudaGraphAddNode_v2(out, graph, dependencies, NULL, (size_t)data,
					   (struct cudaGraphNodeParams *)nr);
	return cudaGraphAddNode_v2(out, graph, dependencies, data, nr, params);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph,
				   const cudaGraphNode_t *dependencies, size_t nr,
				   const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS made;

	return RUNTIME_WITH(sim_runtime_graph_kernel(params, &made),
			    cuGraphAddKernelNode_v2(out, graph, dependencies, nr, &made));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t graph,
				   const cudaGraphNode_t *dependencies, size_t nr,
				   const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D made;

	return RUNTIME_WITH(sim_runtime_copy(params, &made),
			    cuGraphAddMemcpyNode(out, graph, dependencies, nr, &made, NULL));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t graph,
				     const cudaGraphNode_t *dependencies, size_t nr, void *dst,
				     const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D made = sim_runtime_copy_linear(dst, src, bytes);

	(void)kind;
	return RUNTIME(cuGraphAddMemcpyNode(out, graph, dependencies, nr, &made, NULL));
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *out, cudaGraph_t graph,
					   const cudaGraphNode_t *dependencies, size_t nr, const void *symbol,
					   const void *src, size_t bytes, size_t offset,
					   enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, symbol);

	return e ? e
		 : cudaGraphAddMemcpyNode1D(out, graph, dependencies, nr, (char *)address + offset, src,
					    bytes, kind);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *out, cudaGraph_t graph,
					     const cudaGraphNode_t *dependencies, size_t nr, void *dst,
					     const void *symbol, size_t bytes, size_t offset,
					     enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, symbol);

	return e ? e
		 : cudaGraphAddMemcpyNode1D(out, graph, dependencies, nr, dst, (char *)address + offset,
					    bytes, kind);
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t graph,
				   const cudaGraphNode_t *dependencies, size_t nr,
				   const struct cudaMemsetParams *params)
{
	return RUNTIME(cuGraphAddMemsetNode(out, graph, dependencies, nr,
					    (const CUDA_MEMSET_NODE_PARAMS *)params, NULL));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
				 size_t nr, const struct cudaHostNodeParams *params)
{
	return RUNTIME(
		cuGraphAddHostNode(out, graph, dependencies, nr, (const CUDA_HOST_NODE_PARAMS *)params));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t graph,
				       const cudaGraphNode_t *dependencies, size_t nr, cudaGraph_t child)
{
	return RUNTIME(cuGraphAddChildGraphNode(out, graph, dependencies, nr, child));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t graph,
				  const cudaGraphNode_t *dependencies, size_t nr)
{
	return RUNTIME(cuGraphAddEmptyNode(out, graph, dependencies, nr));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t graph,
					const cudaGraphNode_t *dependencies, size_t nr, cudaEvent_t event)
{
	return RUNTIME(cuGraphAddEventRecordNode(out, graph, dependencies, nr, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *out, cudaGraph_t graph,
				      const cudaGraphNode_t *dependencies, size_t nr, cudaEvent_t event)
{
	return RUNTIME(cuGraphAddEventWaitNode(out, graph, dependencies, nr, event));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t graph,
				     const cudaGraphNode_t *dependencies, size_t nr,
				     struct cudaMemAllocNodeParams *params)
{
	return RUNTIME(
		cuGraphAddMemAllocNode(out, graph, dependencies, nr, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t graph,
				    const cudaGraphNode_t *dependencies, size_t nr, void *p)
{
	return RUNTIME(cuGraphAddMemFreeNode(out, graph, dependencies, nr, (CUdeviceptr)p));
}

/* ---- nodes' parameters ----------------------------------------------------------------------- */

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t handle, struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams made;

	return RUNTIME_WITH(sim_runtime_graph_node(params, &made), cuGraphNodeSetParams(handle, &made));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t handle, struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS made;
	cudaError_t e = RUNTIME_WITH(params ? cudaSuccess : cudaErrorInvalidValue,
				     cuGraphKernelNodeGetParams_v2(handle, &made));

	if (!e)
		kernel_back(&made, params);
	return e;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t handle, const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS made;

	return RUNTIME_WITH(sim_runtime_graph_kernel(params, &made),
			    cuGraphKernelNodeSetParams_v2(handle, &made));
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t handle, cudaKernelNodeAttrID id,
					    cudaKernelNodeAttrValue *value)
{
	return RUNTIME(cuGraphKernelNodeGetAttribute(handle, (CUkernelNodeAttrID)id,
						     (CUkernelNodeAttrValue *)value));
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t handle, cudaKernelNodeAttrID id,
					    const cudaKernelNodeAttrValue *value)
{
	return RUNTIME(cuGraphKernelNodeSetAttribute(handle, (CUkernelNodeAttrID)id,
						     (const CUkernelNodeAttrValue *)value));
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from)
{
	return RUNTIME(cuGraphKernelNodeCopyAttributes(to, from));
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t handle, struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D made;
	cudaError_t e = RUNTIME_WITH(params ? cudaSuccess : cudaErrorInvalidValue,
				     cuGraphMemcpyNodeGetParams(handle, &made));

	if (!e)
		sim_runtime_copy_back(&made, params);
	return e;
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t handle, const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D made;

	return RUNTIME_WITH(sim_runtime_copy(params, &made), cuGraphMemcpyNodeSetParams(handle, &made));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t handle, void *dst, const void *src, size_t bytes,
					   enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D made = sim_runtime_copy_linear(dst, src, bytes);

	(void)kind;
	return RUNTIME(cuGraphMemcpyNodeSetParams(handle, &made));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t handle, const void *symbol, const void *src,
						 size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, symbol);

	return e ? e : cudaGraphMemcpyNodeSetParams1D(handle, (char *)address + offset, src, bytes, kind);
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t handle, void *dst, const void *symbol,
						   size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, symbol);

	return e ? e : cudaGraphMemcpyNodeSetParams1D(handle, dst, (char *)address + offset, bytes, kind);
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t handle, struct cudaMemsetParams *params)
{
	return RUNTIME(cuGraphMemsetNodeGetParams(handle, (CUDA_MEMSET_NODE_PARAMS *)params));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t handle, const struct cudaMemsetParams *params)
{
	return RUNTIME(cuGraphMemsetNodeSetParams(handle, (const CUDA_MEMSET_NODE_PARAMS *)params));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t handle, struct cudaHostNodeParams *params)
{
	return RUNTIME(cuGraphHostNodeGetParams(handle, (CUDA_HOST_NODE_PARAMS *)params));
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t handle, const struct cudaHostNodeParams *params)
{
	return RUNTIME(cuGraphHostNodeSetParams(handle, (const CUDA_HOST_NODE_PARAMS *)params));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t handle, cudaGraph_t *graph)
{
	return RUNTIME(cuGraphChildGraphNodeGetGraph(handle, graph));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t handle, cudaEvent_t *event)
{
	return RUNTIME(cuGraphEventRecordNodeGetEvent(handle, event));
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t handle, cudaEvent_t event)
{
	return RUNTIME(cuGraphEventRecordNodeSetEvent(handle, event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t handle, cudaEvent_t *event)
{
	return RUNTIME(cuGraphEventWaitNodeGetEvent(handle, event));
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t handle, cudaEvent_t event)
{
	return RUNTIME(cuGraphEventWaitNodeSetEvent(handle, event));
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t handle, struct cudaMemAllocNodeParams *params)
{
	return RUNTIME(cuGraphMemAllocNodeGetParams(handle, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t handle, void *p)
{
	return RUNTIME(cuGraphMemFreeNodeGetParams(handle, (CUdeviceptr *)p));
}
