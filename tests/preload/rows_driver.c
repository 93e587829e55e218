/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 with what the simulated GPU does not have: multicast, external memory, green contexts,
 * checkpoints, array sizes that are told, pools of the host and of managed memory that are just there, a slow
 * answer, a primary context that ends with its last release, the driver's own end. It gives out numbers and
 * keeps no memory; 0 is always a bad argument. With -DRUNTIME: a libcudart.so.13 with some functions.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#pragma GCC visibility push(default)

#ifndef RUNTIME

static uint64_t next_handle = 0x1000;
static unsigned retained;
static int is_shut_down, has_no_context;

static uint64_t fresh(void)
{
	return next_handle += 0x1000;
}

#define GIVE(out, type) (*(out) = (type)fresh(), CUDA_SUCCESS)
#define KNOWN(handle) ((handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)

CUresult cuInit(unsigned flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return ordinal < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	*bytes = 1u << 30;
	return device < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return has_no_context ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	retained++;
	*context = (CUcontext)0x4242;
	return device < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	if (!retained || device)
		return CUDA_ERROR_INVALID_CONTEXT;
	retained--;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	*flags = 0;
	*active = !device && retained;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	return bytes ? GIVE(out, CUdeviceptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
	return is_shut_down ? CUDA_ERROR_DEINITIALIZED : KNOWN(p);
}

/* No CUDA function: from here on the driver is shutting down, as it is in the last destructors of a process.
 */
void shut_down(void)
{
	is_shut_down = 1;
}

/* Nor is this: no thread has a context from here on. */
void take_contexts_away(void)
{
	has_no_context = 1;
}

/* The addresses in a pool begin with its handle. */
#define HOST_POOL 0x70000
#define MANAGED_POOL 0x80000

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
	(void)location;
	*out = (CUmemoryPool)(uintptr_t)(type == CU_MEM_ALLOCATION_TYPE_MANAGED ? MANAGED_POOL : HOST_POOL);
	return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	static unsigned nr;

	(void)stream;
	*out = (uintptr_t)pool + 0x1000 * nr++;
	return bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttributes(unsigned nr, CUpointer_attribute *attributes, void **values, CUdeviceptr p)
{
	for (unsigned i = 0; i < nr; i++)
		if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*(unsigned *)values[i] = p >= MANAGED_POOL;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			*(unsigned *)values[i] = p < MANAGED_POOL ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		else
			*(int *)values[i] = -1;
	return CUDA_SUCCESS;
}

static CUstream captured;

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	(void)mode;
	captured = stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = stream && stream == captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
					       : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* It asks nothing of a stream that is gone. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
	if (stream == captured)
		captured = NULL;
	return KNOWN(stream);
}

CUresult cuStreamDestroy(CUstream stream)
{
	return cuStreamDestroy_v2(stream);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	captured = NULL;
	*graph = NULL;
	return stream ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

/* Their other forms. */
CUresult cuStreamBeginCapture(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return cuStreamBeginCapture(stream);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(stream, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
				     const CUgraphEdgeData *edges, size_t nr, CUstreamCaptureMode mode)
{
	(void)nodes;
	(void)edges;
	(void)nr;
	return graph ? cuStreamBeginCapture_v2(stream, mode) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
					  const CUgraphEdgeData *edges, size_t nr, CUstreamCaptureMode mode)
{
	return cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, nr, mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return cuStreamEndCapture(stream, graph);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	(void)stream;
	return bytes ? GIVE(out, CUdeviceptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream stream)
{
	(void)stream;
	return KNOWN(p);
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
	return d ? GIVE(out, CUarray) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *need, CUarray array, CUdevice device)
{
	(void)device;
	need->size = 12345678;
	return KNOWN(array);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
		     unsigned long long flags)
{
	(void)flags;
	return bytes && prop ? GIVE(out, CUmemGenericAllocationHandle) : CUDA_ERROR_INVALID_VALUE;
}

/* All of it lies on device 1. */
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	*prop = (CUmemAllocationProp){ .location = { CU_MEM_LOCATION_TYPE_DEVICE, { 1 } } };
	return KNOWN(handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return KNOWN(handle);
}

CUresult cuMemGetHandleForAddressRange(void *out, CUdeviceptr p, size_t bytes, CUmemRangeHandleType type,
				       unsigned long long flags)
{
	(void)type;
	(void)flags;
	*(int *)out = -1;
	return p && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop)
{
	return prop && prop->size ? GIVE(out, CUmemGenericAllocationHandle) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle object, CUdevice device)
{
	return device < 2 ? KNOWN(object) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset,
			    CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
			    unsigned long long flags)
{
	(void)offset;
	(void)memory_offset;
	(void)flags;
	return object && bytes ? KNOWN(memory) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr p, size_t bytes,
			     unsigned long long flags)
{
	(void)offset;
	(void)flags;
	return object && bytes ? KNOWN(p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t bytes)
{
	(void)device;
	(void)offset;
	(void)bytes;
	return KNOWN(object);
}

CUresult cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
	if (d->size > 1ull << 40)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return d->size ? GIVE(out, CUexternalMemory) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory memory,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d)
{
	return memory && d->size ? GIVE(out, CUdeviceptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory memory,
						 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *d)
{
	(void)d;
	return memory ? GIVE(out, CUmipmappedArray) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return KNOWN(array);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	return KNOWN(memory);
}

CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc resources, CUdevice device, unsigned flags)
{
	(void)resources;
	if (!flags || device)
		return device ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	retained++;
	return GIVE(out, CUgreenCtx);
}

CUresult cuGreenCtxDestroy(CUgreenCtx context)
{
	if (context)
		retained--;
	return KNOWN(context);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	(void)args;
	return KNOWN(pid);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	(void)args;
	return KNOWN(pid);
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t nr,
			CUgraphNodeParams *p)
{
	(void)after;
	(void)nr;
	p->alloc.dptr = fresh();
	return graph ? GIVE(out, CUgraphNode) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
			   const CUgraphEdgeData *edges, size_t nr, CUgraphNodeParams *p)
{
	(void)edges;
	return cuGraphAddNode(out, graph, after, nr, p);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	(void)flags;
	return graph ? GIVE(out, CUgraphExec) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	(void)stream;
	return KNOWN(exec);
}

/* Always something else, and it takes a while. */
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	static unsigned asked;

	(void)device;
	usleep(10000);
	*(cuuint64_t *)value =
		attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? 0x1000 * ++asked : 0x1000;
	return CUDA_SUCCESS;
}

#else /* the runtime, which looks up the driver's functions as the runtime does */

#define CALL(fn, args) ((cudaError_t)((__typeof__(&fn))dlsym(RTLD_DEFAULT, #fn))args)

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *out, const struct cudaExternalMemoryHandleDesc *d)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .size = d->size };

	return CALL(cuImportExternalMemory, ((CUexternalMemory *)out, &desc));
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void **out, cudaExternalMemory_t memory,
					      const struct cudaExternalMemoryBufferDesc *d)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = { .size = d->size };

	return CALL(cuExternalMemoryGetMappedBuffer, ((CUdeviceptr *)out, (CUexternalMemory)memory, &desc));
}

cudaError_t cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t *out, cudaExternalMemory_t memory,
						      const struct cudaExternalMemoryMipmappedArrayDesc *d)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = { .numLevels = d->numLevels };

	return CALL(cuExternalMemoryGetMappedMipmappedArray,
		    ((CUmipmappedArray *)out, (CUexternalMemory)memory, &desc));
}

cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t memory)
{
	return CALL(cuDestroyExternalMemory, ((CUexternalMemory)memory));
}

/* Past all of the driver's functions. */
cudaError_t cudaDeviceReset(void)
{
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = 1;
	return cudaSuccess;
}

/* As CUDA 12 has it. */
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
				const cudaGraphEdgeData *edges, size_t nr, struct cudaGraphNodeParams *p);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
				const cudaGraphEdgeData *edges, size_t nr, struct cudaGraphNodeParams *p)
{
	return CALL(cuGraphAddNode_v2,
		    (out, graph, after, (const CUgraphEdgeData *)edges, nr, (CUgraphNodeParams *)p));
}

#endif
