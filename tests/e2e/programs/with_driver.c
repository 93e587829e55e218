/* SPDX-License-Identifier: MIT */
/* A CUDA program over the driver alone: linear, mapped and pooled memory, a module; prints what it took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define MIB ((size_t)1 << 20)

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "with_driver: %s\n", what);
		exit(1);
	}
}

/* One physical allocation, seen at two addresses: what is written at one is read at the other. */
static CUmemGenericAllocationHandle map_twice(CUdeviceptr *base, size_t bytes)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	unsigned value = 0xfeedbeef, seen = 0;

	need(!cuMemAddressReserve(base, 2 * bytes, 0, 0, 0), "no addresses");
	need(!cuMemCreate(&handle, bytes, &prop, 0), "no physical memory");
	need(!cuMemMap(*base, bytes, 0, handle, 0) && !cuMemMap(*base + bytes, bytes, 0, handle, 0), "not mapped");
	need(!cuMemSetAccess(*base, 2 * bytes, &access, 1), "no access");
	need(!cuMemcpyHtoD(*base + 100, &value, sizeof(value)), "not written");
	need(!cuMemcpyDtoH(&seen, *base + bytes + 100, sizeof(seen)) && seen == value, "not the same memory");
	return handle;
}

static void launch_kernel(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";
	CUfunction function;
	CUmodule module;
	int threads = 0;

	need(!cuModuleLoadData(&module, ptx), "module not loaded");
	need(!cuModuleGetFunction(&function, module, "nothing"), "no function");
	need(!cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) && threads == 1024,
	     "other attributes");
	need(!cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), "not launched");
	need(!cuCtxSynchronize() && !cuModuleUnload(module), "not synchronised");
}

int main(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr linear, mapped, pooled, none;
	CUcontext context;
	CUdevice device;

	need(cuMemAlloc(&none, 1) == CUDA_ERROR_NOT_INITIALIZED, "memory before cuInit");
	need(!cuInit(0) && !cuDeviceGet(&device, 0), "no device");
	need(cuMemAlloc(&none, 1) == CUDA_ERROR_INVALID_CONTEXT, "memory without a context");
	need(!cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context), "no context");
	need(!cuMemAlloc(&linear, 10 * MIB) && !cuMemAllocAsync(&pooled, 6 * MIB, NULL), "no memory");
	handle = map_twice(&mapped, 4 * MIB);
	launch_kernel();
	need(cuMemFree(linear + 256) == CUDA_ERROR_INVALID_VALUE, "freed the middle of a block");
	need(!cuMemFree(linear) && !cuMemFreeAsync(pooled, NULL), "not freed");
	need(!cuMemRelease(handle) && !cuMemUnmap(mapped, 8 * MIB) && !cuMemAddressFree(mapped, 8 * MIB), "not undone");
	printf("{\"allocs\": 3, \"frees\": 3, \"peak\": %zu, \"left\": 0, \"pinned\": 0, \"managed\": 0}\n", 20 * MIB);
	return 0;
}
