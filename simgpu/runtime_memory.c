/* SPDX-License-Identifier: MIT */
/* Memory, pools and copies of the runtime half. */
#include <string.h>

#include "simgpu/runtime.h"

/* ---- device memory --------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	if (!p)
		return sim_runtime_error(cudaErrorInvalidValue);
	if (!bytes) {
		*p = NULL;
		return sim_runtime_error(sim_runtime_context());
	}
	return RUNTIME(cuMemAlloc_v2((CUdeviceptr *)p, bytes));
}

cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height)
{
	return RUNTIME(cuMemAllocPitch_v2((CUdeviceptr *)p, pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *p, struct cudaExtent extent)
{
	if (!p)
		return sim_runtime_error(cudaErrorInvalidValue);
	p->xsize = extent.width;
	p->ysize = extent.height;
	return RUNTIME(cuMemAllocPitch_v2((CUdeviceptr *)&p->ptr, &p->pitch, extent.width,
					  extent.height * extent.depth, 4));
}

cudaError_t cudaFree(void *p)
{
	return RUNTIME(cuMemFree_v2((CUdeviceptr)p));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	return RUNTIME(cuMemGetInfo_v2(free_bytes, total_bytes));
}

/* ---- host and managed memory ----------------------------------------------------------------- */

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	if (!p)
		return sim_runtime_error(cudaErrorInvalidValue);
	if (!bytes) {
		*p = NULL;
		return sim_runtime_error(sim_runtime_context());
	}
	return RUNTIME(cuMemHostAlloc(p, bytes, flags));
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
	return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
	return RUNTIME(cuMemFreeHost(p));
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
	return RUNTIME(cuMemHostRegister_v2(p, bytes, flags));
}

cudaError_t cudaHostUnregister(void *p)
{
	return RUNTIME(cuMemHostUnregister(p));
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
	return RUNTIME(cuMemHostGetDevicePointer_v2((CUdeviceptr *)device, host, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *p)
{
	return RUNTIME(cuMemHostGetFlags(flags, p));
}

cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned int flags)
{
	return RUNTIME(cuMemAllocManaged((CUdeviceptr *)p, bytes, flags));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
	CUpointer_attribute names[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	unsigned type = 0, managed = 0;
	int device = 0;
	void *values[] = { &type, &managed, &device };
	cudaError_t e = sim_runtime_context();

	if (!e && !out)
		e = cudaErrorInvalidValue;
	if (!e)
		e = (cudaError_t)sim_driver()->cuPointerGetAttributes(3, names, values, (CUdeviceptr)p);
	if (e)
		return sim_runtime_error(e);
	memset(out, 0, sizeof(*out));
	out->device = device;
	out->type = !type ? cudaMemoryTypeUnregistered : managed ? cudaMemoryTypeManaged
		  : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
	if (out->type != cudaMemoryTypeUnregistered)
		out->devicePointer = (void *)(uintptr_t)p;
	if (out->type != cudaMemoryTypeDevice)
		out->hostPointer = (void *)(uintptr_t)p;
	return cudaSuccess;
}

/* ---- stream-ordered memory ------------------------------------------------------------------- */

#define ASYNC(suffix)                                                                                        \
	cudaError_t cudaMallocAsync##suffix(void **p, size_t bytes, cudaStream_t stream)                     \
	{                                                                                                    \
		return RUNTIME(cuMemAllocAsync##suffix((CUdeviceptr *)p, bytes, stream));                    \
	}                                                                                                    \
	cudaError_t cudaMallocFromPoolAsync##suffix(void **p, size_t bytes, cudaMemPool_t pool,              \
						    cudaStream_t stream)                                     \
	{                                                                                                    \
		return RUNTIME(cuMemAllocFromPoolAsync##suffix((CUdeviceptr *)p, bytes, pool, stream));      \
	}                                                                                                    \
	cudaError_t cudaFreeAsync##suffix(void *p, cudaStream_t stream)                                      \
	{                                                                                                    \
		return RUNTIME(cuMemFreeAsync##suffix((CUdeviceptr)p, stream));                              \
	}

ASYNC()
ASYNC(_ptsz)

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	return RUNTIME(cuMemPoolCreate(pool, (const CUmemPoolProps *)props));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	return RUNTIME(cuMemPoolDestroy(pool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	return RUNTIME(cuMemPoolTrimTo(pool, keep));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	return RUNTIME(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	return RUNTIME(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *map, size_t count)
{
	return RUNTIME(cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)map, count));
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
				 struct cudaMemLocation *location)
{
	return RUNTIME(cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	return RUNTIME(cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	return RUNTIME(cuDeviceGetMemPool(pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	return RUNTIME(cuDeviceSetMemPool(device, pool));
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t pool)
{
	return RUNTIME(cuMemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type, pool));
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
	return RUNTIME(cuMemGetMemPool(pool, (CUmemLocation *)location, (CUmemAllocationType)type));
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
				     enum cudaMemAllocationType type)
{
	return RUNTIME(cuMemGetDefaultMemPool(pool, (CUmemLocation *)location, (CUmemAllocationType)type));
}

cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
					       enum cudaMemAllocationHandleType type, unsigned int flags)
{
	return RUNTIME(cuMemPoolExportToShareableHandle(handle, pool, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
						 enum cudaMemAllocationHandleType type, unsigned int flags)
{
	return RUNTIME(cuMemPoolImportFromShareableHandle(pool, handle, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *p)
{
	return RUNTIME(cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, (CUdeviceptr)p));
}

cudaError_t cudaMemPoolImportPointer(void **p, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data)
{
	return RUNTIME(cuMemPoolImportPointer((CUdeviceptr *)p, pool, (CUmemPoolPtrExportData *)data));
}

/* ---- IPC ------------------------------------------------------------------------------------- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p)
{
	return RUNTIME(cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)p));
}

cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned int flags)
{
	CUipcMemHandle h;

	memcpy(&h, &handle, sizeof(h));
	return RUNTIME(cuIpcOpenMemHandle_v2((CUdeviceptr *)p, h, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
	return RUNTIME(cuIpcCloseMemHandle((CUdeviceptr)p));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	return RUNTIME(cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle h;

	memcpy(&h, &handle, sizeof(h));
	return RUNTIME(cuIpcOpenEventHandle(event, h));
}

/* ---- copies: the direction is in the pointers, so KIND says nothing new ---------------------- */

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	(void)kind;
	return RUNTIME(cuMemcpy((CUdeviceptr)dst, (CUdeviceptr)src, bytes));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	(void)kind;
	return RUNTIME(cuMemcpyAsync((CUdeviceptr)dst, (CUdeviceptr)src, bytes, stream));
}

cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes)
{
	(void)dst_device;
	(void)src_device;
	return RUNTIME(cuMemcpyPeer((CUdeviceptr)dst, NULL, (CUdeviceptr)src, NULL, bytes));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
				cudaStream_t stream)
{
	(void)dst_device;
	(void)src_device;
	return RUNTIME(cuMemcpyPeerAsync((CUdeviceptr)dst, NULL, (CUdeviceptr)src, NULL, bytes, stream));
}

static CUDA_MEMCPY2D rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
			  size_t height)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = (CUdeviceptr)src, .srcPitch = src_pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = (CUdeviceptr)dst, .dstPitch = dst_pitch,
		.WidthInBytes = width, .Height = height,
	};
}

cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
			 size_t height, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY2D c = rows(dst, dst_pitch, src, src_pitch, width, height);

	(void)kind;
	return RUNTIME(cuMemcpy2DUnaligned_v2(&c));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
			      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	CUDA_MEMCPY2D c = rows(dst, dst_pitch, src, src_pitch, width, height);

	(void)kind;
	return RUNTIME(cuMemcpy2DAsync_v2(&c, stream));
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
	return RUNTIME(cuMemsetD8_v2((CUdeviceptr)p, (unsigned char)value, bytes));
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	return RUNTIME(cuMemsetD8Async((CUdeviceptr)p, (unsigned char)value, bytes, stream));
}

cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
	return RUNTIME(cuMemsetD2D8_v2((CUdeviceptr)p, pitch, (unsigned char)value, width, height));
}

cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
			      cudaStream_t stream)
{
	return RUNTIME(cuMemsetD2D8Async((CUdeviceptr)p, pitch, (unsigned char)value, width, height, stream));
}
