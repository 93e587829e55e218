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

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	CUcontext ctx = NULL;
	cudaError_t e = sim_runtime_context();

	if (!e)
		e = (cudaError_t)sim_driver()->cuDevicePrimaryCtxRetain(&ctx, peer);
	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuCtxEnablePeerAccess(ctx, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	CUcontext ctx = NULL;
	cudaError_t e = sim_runtime_context();

	if (!e)
		e = (cudaError_t)sim_driver()->cuDevicePrimaryCtxRetain(&ctx, peer);
	return sim_runtime_error(e ? e : (cudaError_t)sim_driver()->cuCtxDisablePeerAccess(ctx));
}

/* ---- properties: one struct for CUDA 13 programs, another for CUDA 12 ones ---------------------------------------- */

static int attribute(CUdevice_attribute a, int device)
{
	int value = 0;

	sim_driver()->cuDeviceGetAttribute(&value, a, device);
	return value;
}

/* The fields that both layouts have under the same name. */
#define FILL_PROPERTIES(p, device)                                                                            \
	do {                                                                                                  \
		sim_driver()->cuDeviceGetName((p)->name, sizeof((p)->name), device);                          \
		sim_driver()->cuDeviceGetUuid_v2((CUuuid *)&(p)->uuid, device);                               \
		sim_driver()->cuDeviceTotalMem_v2(&(p)->totalGlobalMem, device);                              \
		(p)->sharedMemPerBlock = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device); \
		(p)->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);           \
		(p)->warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);                             \
		(p)->memPitch = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, device);                     \
		(p)->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);       \
		(p)->maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device);               \
		(p)->maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device);               \
		(p)->maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);               \
		(p)->maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device);                  \
		(p)->maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device);                  \
		(p)->maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device);                  \
		(p)->totalConstMem = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device);    \
		(p)->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);                 \
		(p)->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);                 \
		(p)->textureAlignment = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device);     \
		(p)->texturePitchAlignment =                                                                  \
			(size_t)attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device);               \
		(p)->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);       \
		(p)->canMapHostMemory = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device);           \
		(p)->surfaceAlignment = (size_t)attribute(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, device);     \
		(p)->concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, device);           \
		(p)->ECCEnabled = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, device);                         \
		(p)->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);                            \
		(p)->asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device);            \
		(p)->unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device);           \
		(p)->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);         \
		(p)->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);                      \
		(p)->maxThreadsPerMultiProcessor =                                                            \
			attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);                \
		(p)->streamPrioritiesSupported =                                                              \
			attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, device);                   \
		(p)->globalL1CacheSupported = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, device); \
		(p)->localL1CacheSupported = attribute(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, device); \
		(p)->sharedMemPerMultiprocessor =                                                             \
			(size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);  \
		(p)->regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device); \
		(p)->managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);                   \
		(p)->computePreemptionSupported =                                                             \
			attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, device);                  \
		(p)->canUseHostPointerForRegisteredMem =                                                      \
			attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device);       \
		(p)->cooperativeLaunch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device);           \
		(p)->sharedMemPerBlockOptin =                                                                 \
			(size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);     \
		(p)->maxBlocksPerMultiProcessor =                                                             \
			attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device);                 \
		(p)->reservedSharedMemPerBlock =                                                              \
			(size_t)attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, device);      \
		(p)->memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);    \
		(p)->hostRegisterSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, device);  \
	} while (0)

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
	FILL_PROPERTIES(prop, device);
	return cudaSuccess;
}

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
	int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
	int textureAndSurfaceLimits[40];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
	int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess;
	int computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
	int cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
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
_Static_assert(offsetof(struct cuda12_properties, maxThreadsPerMultiProcessor) == 624, "the layout of CUDA 12");
_Static_assert(offsetof(struct cuda12_properties, sharedMemPerBlockOptin) == 696, "the layout of CUDA 12");
_Static_assert(sizeof(struct cuda12_properties) == 1032, "the layout of CUDA 12");

SIM_EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cuda12_properties *prop, int device);

cudaError_t cudaGetDeviceProperties_v2(struct cuda12_properties *prop, int device)
{
	cudaError_t e = check(device, prop);

	if (e)
		return sim_runtime_error(e);
	memset(prop, 0, sizeof(*prop));
	FILL_PROPERTIES(prop, device);
	prop->clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
	prop->memoryClockRate = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
	prop->deviceOverlap = attribute(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, device);
	return cudaSuccess;
}
