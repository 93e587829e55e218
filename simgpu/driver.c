/* SPDX-License-Identifier: MIT */
/* The driver half's front door: initialisation, versions and what a device is. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "simgpu/callback.h"

enum { DRIVER_VERSION = CUDA_VERSION };

static bool initialised, forked;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* CUDA does not survive fork(): in a child of an initialised process every call fails, as on a GPU. */
static void in_child(void)
{
	if (initialised)
		forked = true;
}

static void watch_fork(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

bool sim_initialised(void)
{
	return initialised && !forked;
}

CUresult cuInit(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!sim_nr_devices())
		return CUDA_ERROR_NO_DEVICE;
	pthread_once(&fork_once, watch_fork);
	if (!initialised)
		sim_tell_created(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, NULL, NULL);
	initialised = true;
	sim_values_start();
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

static CUresult check(CUdevice dev, const void *out)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	return dev >= 0 && dev < sim_nr_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult ret = check(0, count);

	if (!ret)
		*count = sim_nr_devices();
	return ret;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult ret = check(ordinal, device);

	if (!ret)
		*device = ordinal;
	return ret;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult ret = check(dev, name);

	if (!ret && len > 0)
		snprintf(name, (size_t)len, "%s", sim_profile()->product);
	return ret;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	CUresult ret = check(dev, uuid);

	if (!ret)
		sim_device_uuid(sim_device_physical(dev), (unsigned char *)uuid->bytes);
	return ret;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult ret = check(dev, bytes);

	if (!ret)
		*bytes = sim_profile()->capacity_bytes;
	return ret;
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
	CUresult ret = check(dev, id);

	if (!ret && len > 0)
		snprintf(id, (size_t)len, "0000:%02X:00.0", sim_device_pci_bus(sim_device_physical(dev)));
	return ret;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
	CUresult ret = check(0, dev);
	unsigned domain = 0, bus = 0;

	if (ret || !id)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	if (sscanf(id, "%x:%x:", &domain, &bus) != 2 && sscanf(id, "%x:", &bus) != 1)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim_nr_devices(); i++) {
		if (sim_device_pci_bus(sim_device_physical(i)) == (int)bus) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

/* What no profile changes; an attribute in neither list is 0, which means absent. */
static const struct {
	CUdevice_attribute attribute;
	int value;
} constants[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
	{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
	{ CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1 },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
	{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072 },
	{ CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536 },
};

static int attribute(CUdevice_attribute a, CUdevice dev)
{
	const struct sim_profile *p = sim_profile();

	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return p->cc_major;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return p->cc_minor;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return p->sms;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		return p->smem_optin_bytes;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
		return p->smem_sm_bytes;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		return p->threads_per_sm;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
		return p->blocks_per_sm;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
		return p->l2_bytes;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
		return p->bus_bits;
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
		return p->clock_khz;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
		return p->memory_clock_khz;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return sim_device_pci_bus(sim_device_physical(dev));
	case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
		return p->cc_major >= 8 ? 1024 : 0;
	case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
		return p->cc_major >= 9;
	case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
		return p->cc_major >= 9;
	case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
		return p->cc_minor || p->cc_major == 12 ? 64 : 2;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (constants[i].attribute == a)
			return constants[i].value;
	return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice dev)
{
	CUresult ret = check(dev, value);

	if (ret)
		return ret;
	if (a <= 0 || a >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attribute(a, dev);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute a, CUdevice src, CUdevice dst)
{
	CUresult ret = check(src, value) ? check(src, value) : check(dst, value);

	if (ret)
		return ret;
	*value = a == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
		 a == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
	return CUDA_SUCCESS;
}
