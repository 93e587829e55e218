/* SPDX-License-Identifier: MIT */
/* Devices, as the runtime shows them. */
#include <string.h>

#include "simgpu/runtime.h"

/* The device that cudaSetDevice chose, for a thread that has no context yet. */
static __thread int chosen;

cudaError_t sim_runtime_context(void)
{
	cudaError_t e = sim_runtime_init();
	CUcontext ctx;

	if (e)
		return e;
	e = (cudaError_t)sim_driver()->cuCtxGetCurrent(&ctx);
	if (e || ctx)
		return e;
	e = (cudaError_t)sim_driver()->cuDevicePrimaryCtxRetain(&ctx, chosen);
	return e ? e : (cudaError_t)sim_driver()->cuCtxSetCurrent(ctx);
}

cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t e = sim_runtime_init();

	if (count)
		*count = 0;
	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int *device)
{
	cudaError_t e = sim_runtime_init();
	CUcontext ctx;

	if (e || !device)
		return sim_runtime_error(e ? e : cudaErrorInvalidValue);
	e = (cudaError_t)sim_driver()->cuCtxGetCurrent(&ctx);
	if (!e && ctx)
		e = (cudaError_t)sim_driver()->cuCtxGetDevice(device);
	else if (!e)
		*device = chosen;
	return sim_runtime_error(e);
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t e = sim_runtime_init();
	CUcontext current, ctx;
	CUdevice now = -1;

	if (!e)
		e = (cudaError_t)sim_driver()->cuCtxGetCurrent(&current);
	if (!e && current)
		sim_driver()->cuCtxGetDevice(&now);
	if (!e && now != device)
		e = (cudaError_t)sim_driver()->cuDevicePrimaryCtxRetain(&ctx, device);
	if (!e && now != device)
		e = (cudaError_t)sim_driver()->cuCtxSetCurrent(ctx);
	if (!e)
		chosen = device;
	return sim_runtime_error(e);
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
	CUcontext ctx;

	(void)device_flags;
	(void)flags;
	return RUNTIME_NO_CONTEXT(cuDevicePrimaryCtxRetain(&ctx, device));
}

cudaError_t cudaDeviceSynchronize(void)
{
	return RUNTIME(cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
	int device = 0;
	cudaError_t e = cudaGetDevice(&device);

	return e ? e : RUNTIME_NO_CONTEXT(cuDevicePrimaryCtxReset_v2(device));
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	return RUNTIME(cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	return RUNTIME(cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	return RUNTIME_NO_CONTEXT(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int src, int dst)
{
	return RUNTIME_NO_CONTEXT(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, src, dst));
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
	return RUNTIME_NO_CONTEXT(cuDeviceGetPCIBusId(id, len, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	return RUNTIME_NO_CONTEXT(cuDeviceGetByPCIBusId(device, id));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	return RUNTIME(cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	return RUNTIME_NO_CONTEXT(cuDeviceCanAccessPeer(can, device, peer));
}

/* The primary context of PEER, a device other than the current one. */
static cudaError_t peer_context(CUcontext *ctx, int peer)
{
	cudaError_t e = sim_runtime_context();
	CUdevice own = -1;

	if (!e)
		e = (cudaError_t)sim_driver()->cuCtxGetDevice(&own);
	if (!e && own == peer)
		e = cudaErrorInvalidDevice;
	return e ? e : (cudaError_t)sim_driver()->cuDevicePrimaryCtxRetain(ctx, peer);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	CUcontext ctx = NULL;
	cudaError_t e = peer_context(&ctx, peer);

	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuCtxEnablePeerAccess(ctx, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	CUcontext ctx = NULL;
	cudaError_t e = peer_context(&ctx, peer);

	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuCtxDisablePeerAccess(ctx));
}

/* ---- properties: one struct for CUDA 13 programs, another for CUDA 12 ones ------------------- */

/* struct cudaDeviceProp of CUDA 12, which programs built for it receive through cudaGetDeviceProperties_v2. */
struct cuda12_properties {
	char name[256];
	cudaUUID_t uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
	size_t totalConstMem;
	int major, minor;
	size_t textureAlignment, texturePitchAlignment;
	int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
	    computeMode;
	int textureAndSurfaceLimits[40];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
	int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported,
	    localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID,
	    hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess;
	int computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
	int cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,
	    maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
	int reserved[63];
};

_Static_assert(offsetof(struct cuda12_properties, multiProcessorCount) == 388, "the layout of CUDA 12");
_Static_assert(offsetof(struct cuda12_properties, l2CacheSize) == 616, "the layout of CUDA 12");
_Static_assert(offsetof(struct cuda12_properties, maxThreadsPerMultiProcessor) == 624,
	       "the layout of CUDA 12");
_Static_assert(offsetof(struct cuda12_properties, sharedMemPerBlockOptin) == 696, "the layout of CUDA 12");
_Static_assert(sizeof(struct cuda12_properties) == 1032, "the layout of CUDA 12");

/* What both layouts have under the same name, and the attribute that it is. */
static const struct field {
	CUdevice_attribute attribute;
	size_t offset, offset_cuda12;
	size_t bytes;
} fields[] = {
#define FIELD(member, attribute_)                                                                            \
	{ CU_DEVICE_ATTRIBUTE_##attribute_, offsetof(struct cudaDeviceProp, member),                         \
	  offsetof(struct cuda12_properties, member), sizeof(((struct cudaDeviceProp *)0)->member) }
	FIELD(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
	FIELD(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
	FIELD(warpSize, WARP_SIZE),
	FIELD(memPitch, MAX_PITCH),
	FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
	FIELD(maxThreadsDim[0], MAX_BLOCK_DIM_X),
	FIELD(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
	FIELD(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
	FIELD(maxGridSize[0], MAX_GRID_DIM_X),
	FIELD(maxGridSize[1], MAX_GRID_DIM_Y),
	FIELD(maxGridSize[2], MAX_GRID_DIM_Z),
	FIELD(totalConstMem, TOTAL_CONSTANT_MEMORY),
	FIELD(major, COMPUTE_CAPABILITY_MAJOR),
	FIELD(minor, COMPUTE_CAPABILITY_MINOR),
	FIELD(textureAlignment, TEXTURE_ALIGNMENT),
	FIELD(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
	FIELD(multiProcessorCount, MULTIPROCESSOR_COUNT),
	FIELD(canMapHostMemory, CAN_MAP_HOST_MEMORY),
	FIELD(surfaceAlignment, SURFACE_ALIGNMENT),
	FIELD(concurrentKernels, CONCURRENT_KERNELS),
	FIELD(ECCEnabled, ECC_ENABLED),
	FIELD(pciBusID, PCI_BUS_ID),
	FIELD(asyncEngineCount, ASYNC_ENGINE_COUNT),
	FIELD(unifiedAddressing, UNIFIED_ADDRESSING),
	FIELD(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
	FIELD(l2CacheSize, L2_CACHE_SIZE),
	FIELD(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
	FIELD(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
	FIELD(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
	FIELD(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
	FIELD(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
	FIELD(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
	FIELD(managedMemory, MANAGED_MEMORY),
	FIELD(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
	FIELD(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
	FIELD(cooperativeLaunch, COOPERATIVE_LAUNCH),
	FIELD(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
	FIELD(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
	FIELD(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
	FIELD(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
	FIELD(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
#undef FIELD
};

/* Store the attributes of DEVICE into PROP, a zeroed struct of either layout. */
static void fill(void *prop, bool cuda12, int device)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		const struct field *f = &fields[i];
		char *at = (char *)prop + (cuda12 ? f->offset_cuda12 : f->offset);
		int value = 0;

		sim_driver()->cuDeviceGetAttribute(&value, f->attribute, device);
		if (f->bytes == sizeof(size_t))
			*(size_t *)at = (size_t)value;
		else
			*(int *)at = value;
	}
}

static cudaError_t check(int device, const void *out)
{
	cudaError_t e = sim_runtime_init();
	int count = 0;

	if (!e)
		e = (cudaError_t)sim_driver()->cuDeviceGetCount(&count);
	if (!e && !out)
		e = cudaErrorInvalidValue;
	return e || (device >= 0 && device < count) ? e : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	cudaError_t e = check(device, prop);

	if (e)
		return sim_runtime_error(e);
	memset(prop, 0, sizeof(*prop));
	sim_driver()->cuDeviceGetName(prop->name, sizeof(prop->name), device);
	sim_driver()->cuDeviceGetUuid_v2((CUuuid *)&prop->uuid, device);
	sim_driver()->cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
	fill(prop, false, device);
	return cudaSuccess;
}

SIM_EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cuda12_properties *prop, int device);

cudaError_t cudaGetDeviceProperties_v2(struct cuda12_properties *prop, int device)
{
	cudaError_t e = check(device, prop);

	if (e)
		return sim_runtime_error(e);
	memset(prop, 0, sizeof(*prop));
	sim_driver()->cuDeviceGetName(prop->name, sizeof(prop->name), device);
	sim_driver()->cuDeviceGetUuid_v2((CUuuid *)&prop->uuid, device);
	sim_driver()->cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
	fill(prop, true, device);
	sim_driver()->cuDeviceGetAttribute(&prop->clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
	sim_driver()->cuDeviceGetAttribute(&prop->memoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
					   device);
	return cudaSuccess;
}
