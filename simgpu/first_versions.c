/* SPDX-License-Identifier: MIT */
/*
 * Driver functions as they were before their parameters changed, which every driver still exports. Of those
 * with 32-bit addresses, memory lies below 4 GiB.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <sys/mman.h>

#include "simgpu/internal.h"

#define LOWEST 0x10000000ull
#define STEP 0x2000000ull
#define HIGHEST 0xf0000000ull

/* A mapping of BYTES with a 32-bit address, or NULL. */
static void *map_low(size_t bytes)
{
	for (uintptr_t at = LOWEST; at + bytes <= HIGHEST; at += STEP) {
		void *p = mmap((void *)at, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

		if (p == (void *)at)
			return p;
		if (p != MAP_FAILED)
			munmap(p, bytes);
	}
	return NULL;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
	struct sim_block block = { .kind = SIM_LINEAR,
				   .requested_bytes = bytes,
				   .bytes = sim_round_up(bytes, SIM_GRANULE) };
	CUresult ret = sim_context_need(&block.device);

	if (ret || !dptr || !bytes)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	if (sim_capture_prohibits())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_lock();
	if (!sim_charge(block.device, block.bytes)) {
		ret = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		block.start = (uintptr_t)map_low(block.bytes);
		if (block.start)
			sim_blocks_add(&sim_blocks, &block);
		else
			sim_uncharge(block.device, block.bytes);
	}
	sim_unlock();
	if (!ret && !block.start)
		ret = CUDA_ERROR_OUT_OF_MEMORY;
	if (!ret)
		*dptr = (CUdeviceptr_v1)block.start;
	return ret;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height,
			 unsigned int element)
{
	size_t row = sim_round_up(width, 512);

	(void)element;
	if (!pitch || !width || !height || row * height > UINT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = (unsigned)row;
	return cuMemAlloc(dptr, (unsigned)(row * height));
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
	return cuMemFree_v2(dptr);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytes)
{
	return cuMemAllocHost_v2(pp, bytes);
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	return cuMemHostRegister_v2(p, bytes, flags);
}

CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY_DESCRIPTOR wide = { 0 };

	if (d)
		wide = (CUDA_ARRAY_DESCRIPTOR){ d->Width, d->Height, d->Format, d->NumChannels };
	return cuArrayCreate_v2(handle, d ? &wide : NULL);
}

CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = { 0 };

	if (d)
		wide = (CUDA_ARRAY3D_DESCRIPTOR){ d->Width,  d->Height,      d->Depth,
						  d->Format, d->NumChannels, d->Flags };
	return cuArray3DCreate_v2(handle, d ? &wide : NULL);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(dptr, handle, flags);
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return cuCtxDestroy_v2(ctx);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

/* Nodes never fail to instantiate: there is none to name, and nothing to log. */
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log,
			       size_t log_bytes)
{
	if (bad)
		*bad = NULL;
	if (log && log_bytes)
		*log = '\0';
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t log_bytes)
{
	return cuGraphInstantiate_v2(exec, graph, bad, log, log_bytes);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t nr,
			CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(node, graph, dependencies, NULL, nr, params);
}

/* There was one mode of capture. */
CUresult cuStreamBeginCapture(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
