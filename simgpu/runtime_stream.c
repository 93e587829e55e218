/* SPDX-License-Identifier: MIT */
/* Streams, events and capture of the runtime half. */
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

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
					  const cudaGraphEdgeData *data, size_t nr,
					  enum cudaStreamCaptureMode mode)
{
	return RUNTIME(cuStreamBeginCaptureToGraph(stream, graph, dependencies, (const CUgraphEdgeData *)data, nr,
						   (CUstreamCaptureMode)mode));
}

SIM_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *dependencies,
							      const cudaGraphEdgeData *data, size_t nr,
							      unsigned int flags);

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *dependencies,
						   const cudaGraphEdgeData *data, size_t nr, unsigned int flags)
{
	return RUNTIME(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, (const CUgraphEdgeData *)data, nr,
							    flags));
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
						const cudaGraphEdgeData *data, size_t nr, unsigned int flags)
{
	if (sim_runtime_is_twelve())
		return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, NULL, (size_t)data, (unsigned)nr);
	return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, data, nr, flags);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return RUNTIME_NO_CONTEXT(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}
