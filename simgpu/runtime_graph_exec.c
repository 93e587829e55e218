/* SPDX-License-Identifier: MIT */
/* Executable graphs of the runtime half. */
#include "simgpu/runtime_graph.h"

SAME_LAYOUT(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_LAYOUT(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return RUNTIME(cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return RUNTIME(cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
					   cudaGraphInstantiateParams *params)
{
	return RUNTIME(cuGraphInstantiateWithParams(exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	return RUNTIME(cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
	return RUNTIME(cuGraphExecGetFlags(exec, (cuuint64_t *)flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	return RUNTIME(cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
	return RUNTIME(cuGraphLaunch_ptsz(exec, stream));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	return RUNTIME(cuGraphUpload(exec, stream));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
	return RUNTIME(cuGraphExecUpdate_v2(exec, graph, (CUgraphExecUpdateResultInfo *)info));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t handle,
				       struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams made;

	return RUNTIME_WITH(sim_runtime_graph_node(params, &made),
			    cuGraphExecNodeSetParams(exec, handle, &made));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t handle,
					     const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS made;

	return RUNTIME_WITH(sim_runtime_graph_kernel(params, &made),
			    cuGraphExecKernelNodeSetParams_v2(exec, handle, &made));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t handle,
					     const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D made;

	return RUNTIME_WITH(sim_runtime_copy(params, &made),
			    cuGraphExecMemcpyNodeSetParams(exec, handle, &made, NULL));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t handle, void *dst,
					       const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D made = sim_runtime_copy_linear(dst, src, bytes);

	(void)kind;
	return RUNTIME(cuGraphExecMemcpyNodeSetParams(exec, handle, &made, NULL));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t handle,
						     const void *symbol, const void *src, size_t bytes,
						     size_t offset, enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, symbol);

	return e ? e
		 : cudaGraphExecMemcpyNodeSetParams1D(exec, handle, (char *)address + offset, src, bytes,
						      kind);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t handle,
						       void *dst, const void *symbol, size_t bytes,
						       size_t offset, enum cudaMemcpyKind kind)
{
	void *address;
	cudaError_t e = cudaGetSymbolAddress(&address, symbol);

	return e ? e
		 : cudaGraphExecMemcpyNodeSetParams1D(exec, handle, dst, (char *)address + offset, bytes,
						      kind);
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t handle,
					     const struct cudaMemsetParams *params)
{
	return RUNTIME(
		cuGraphExecMemsetNodeSetParams(exec, handle, (const CUDA_MEMSET_NODE_PARAMS *)params, NULL));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t handle,
					   const struct cudaHostNodeParams *params)
{
	return RUNTIME(cuGraphExecHostNodeSetParams(exec, handle, (const CUDA_HOST_NODE_PARAMS *)params));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t handle,
						 cudaGraph_t child)
{
	return RUNTIME(cuGraphExecChildGraphNodeSetParams(exec, handle, child));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t handle,
						 cudaEvent_t event)
{
	return RUNTIME(cuGraphExecEventRecordNodeSetEvent(exec, handle, event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t handle,
					       cudaEvent_t event)
{
	return RUNTIME(cuGraphExecEventWaitNodeSetEvent(exec, handle, event));
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t handle, unsigned int is_enabled)
{
	return RUNTIME(cuGraphNodeSetEnabled(exec, handle, is_enabled));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t handle, unsigned int *is_enabled)
{
	return RUNTIME(cuGraphNodeGetEnabled(exec, handle, is_enabled));
}
