/* SPDX-License-Identifier: MIT */
/* Streams, events, capture and graphs of the runtime half. */
#include "simgpu/runtime.h"

/* ---- streams --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return RUNTIME(cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	return RUNTIME(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	return RUNTIME(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return RUNTIME(cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return RUNTIME(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return RUNTIME(cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return RUNTIME(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
	return RUNTIME(cuStreamGetFlags(stream, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	return RUNTIME(cuStreamGetPriority(stream, priority));
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	return RUNTIME(cuStreamGetId(stream, id));
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	return RUNTIME(cuStreamGetDevice(stream, device));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
				  unsigned int flags)
{
	return RUNTIME(cuStreamAddCallback(stream, (CUstreamCallback)callback, data, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
	return RUNTIME(cuLaunchHostFunc(stream, function, data));
}

/* ---- events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return RUNTIME(cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	return RUNTIME(cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return RUNTIME(cuEventDestroy_v2(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return RUNTIME(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	return RUNTIME(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return RUNTIME(cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return RUNTIME(cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	return RUNTIME(cuEventElapsedTime_v2(ms, start, end));
}

/* ---- capture --------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	return RUNTIME(cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	return RUNTIME(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	return RUNTIME(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				unsigned long long *id, cudaGraph_t *graph,
				const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
				size_t *nr)
{
	cuuint64_t capture_id = 0;
	cudaError_t e =
	    RUNTIME(cuStreamGetCaptureInfo_v3(stream, (CUstreamCaptureStatus *)status, &capture_id, graph,
					      dependencies, (const CUgraphEdgeData **)edges, nr));

	if (!e && id)
		*id = capture_id;
	return e;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				     unsigned long long *id, cudaGraph_t *graph,
				     const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
				     size_t *nr)
{
	return capture_info(stream, status, id, graph, dependencies, edges, nr);
}

/* Programs built for CUDA 12 know these two; the second has the signature that lost its suffix in CUDA 13. */
SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
						   unsigned long long *id, cudaGraph_t *graph,
						   const cudaGraphNode_t **dependencies, size_t *nr);
SIM_EXPORT cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
						   unsigned long long *id, cudaGraph_t *graph,
						   const cudaGraphNode_t **dependencies,
						   const cudaGraphEdgeData **edges, size_t *nr);

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
					unsigned long long *id, cudaGraph_t *graph,
					const cudaGraphNode_t **dependencies, size_t *nr)
{
	return capture_info(stream, status, id, graph, dependencies, NULL, nr);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
					unsigned long long *id, cudaGraph_t *graph,
					const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
					size_t *nr)
{
	return capture_info(stream, status, id, graph, dependencies, edges, nr);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return RUNTIME_NO_CONTEXT(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
	return RUNTIME(cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return RUNTIME(cuGraphDestroy(graph));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *nr)
{
	return RUNTIME(cuGraphGetNodes(graph, nodes, nr));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *nr)
{
	return RUNTIME(cuGraphGetRootNodes(graph, nodes, nr));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
	return RUNTIME(cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
					 cudaGraphEdgeData *edges, size_t *nr)
{
	return RUNTIME(cuGraphNodeGetDependencies_v2(node, dependencies, (CUgraphEdgeData *)edges, nr));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
	return RUNTIME(cuGraphDebugDotPrint(graph, path, flags));
}

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

/* The runtime's structures are the driver's under other names. */
_Static_assert(offsetof(struct cudaMemAllocNodeParams, dptr) == offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr) &&
	       offsetof(struct cudaGraphNodeParams, alloc.dptr) == offsetof(CUgraphNodeParams, alloc.dptr),
	       "the same layout");

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
				     size_t nr, struct cudaMemAllocNodeParams *params)
{
	return RUNTIME(cuGraphAddMemAllocNode(node, graph, dependencies, nr, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
				    size_t nr, void *p)
{
	return RUNTIME(cuGraphAddMemFreeNode(node, graph, dependencies, nr, (CUdeviceptr)p));
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
			     const cudaGraphEdgeData *edges, size_t nr, struct cudaGraphNodeParams *params)
{
	return RUNTIME(cuGraphAddNode_v2(node, graph, dependencies, (const CUgraphEdgeData *)edges, nr,
					 (CUgraphNodeParams *)params));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	return RUNTIME(cuGraphExecDestroy(exec));
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

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value)
{
	return RUNTIME(cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value)
{
	return RUNTIME(cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
	return RUNTIME(cuDeviceGraphMemTrim(device));
}
