/* SPDX-License-Identifier: MIT */
/* Linear, managed, pinned and registered memory, and arrays. */
#include "rows.h"

static void device_memory(void)
{
	CUdeviceptr p = 0;
	CUdeviceptr_v1 low = 0;
	void *q;

	use_primary();
	OK(cuMemAlloc_v2(&p, 1000));
	allocated("device", "cuMemAlloc_v2", p, 1000);
	OK(cuMemAlloc(&low, 3 * MIB));
	allocated("device", "cuMemAlloc", low, 3 * MIB);
	OK(cudaMalloc(&q, MIB));
	allocated("device", "cudaMalloc", (uintptr_t)q, MIB);
	FAILS(INVALID, cuMemAlloc_v2(&p, 0));
	FAILS(NO_MEMORY, cuMemAlloc_v2(&p, TOO_MUCH));
	refused("device", "cuMemAlloc_v2", TOO_MUCH);
	FAILS(INVALID, cuMemAlloc(&low, 0));
	FAILS(NO_MEMORY, cudaMalloc(&q, TOO_MUCH));
	refused("device", "cudaMalloc", TOO_MUCH);
}

static void free_of_device_memory(void)
{
	CUdeviceptr p, managed;
	CUdeviceptr_v1 low;
	void *q;

	use_primary();
	OK(cuMemAlloc_v2(&p, 1000));
	allocated("device", "cuMemAlloc_v2", p, 1000);
	OK(cuMemAllocManaged(&managed, 2000, CU_MEM_ATTACH_GLOBAL));
	allocated("managed", "cuMemAllocManaged", managed, 2000);
	OK(cuMemAlloc(&low, 3000));
	allocated("device", "cuMemAlloc", low, 3000);
	OK(cudaMalloc(&q, 4000));
	allocated("device", "cudaMalloc", (uintptr_t)q, 4000);
	OK(cuMemFree_v2(p));
	freed("device", "cuMemFree_v2", p, 1000);
	OK(cuMemFree_v2(managed));
	freed("managed", "cuMemFree_v2", managed, 2000);
	OK(cuMemFree(low));
	freed("device", "cuMemFree", low, 3000);
	OK(cudaFree(q));
	freed("device", "cudaFree", (uintptr_t)q, 4000);
	OK(cuMemFree_v2(0));
	OK(cudaFree(NULL));
	FAILS(INVALID, cuMemFree_v2(p));
	not_freed("device", "cuMemFree_v2", p);
	FAILS(INVALID, cuMemFree(low));
	not_freed("device", "cuMemFree", low);
	FAILS(INVALID, cudaFree(q));
	not_freed("device", "cudaFree", (uintptr_t)q);
}

static void a_refused_free_restores_the_block(void)
{
	CUdeviceptr p;

	use_primary();
	OK(cuMemAlloc_v2(&p, 4 * MIB));
	allocated("device", "cuMemAlloc_v2", p, 4 * MIB);
	FAILS(INVALID, cuMemFreeHost((void *)p)); /* in a space of its own: not this block */
	not_freed("pinned", "cuMemFreeHost", p);
	OK(cuMemFree_v2(p));
	freed("device", "cuMemFree_v2", p, 4 * MIB);
}

static void copies(void)
{
	static char host[3000];
	CUdeviceptr p, q;
	char from[48];

	use_primary();
	OK(cuMemAlloc_v2(&p, 4000));
	allocated("device", "cuMemAlloc_v2", p, 4000);
	OK(cuMemAlloc_v2(&q, 4000));
	allocated("device", "cuMemAlloc_v2", q, 4000);
	OK(cudaMemcpy((void *)p, host, 3000, cudaMemcpyHostToDevice));
	expect_more("copy", "", "cudaMemcpy", p, 3000, ", \"source\": 0");
	OK(cudaMemcpyAsync((void *)q, (void *)(p + 100), 2000, cudaMemcpyDeviceToDevice, NULL));
	snprintf(from, sizeof(from), ", \"source\": %" PRIu64, (uint64_t)p + 100);
	expect_more("copy", "", "cudaMemcpyAsync", q, 2000, from);
	OK(cudaMemcpyAsync((void *)(q + 1000), host, 1000, cudaMemcpyHostToDevice, (cudaStream_t)CU_STREAM_LEGACY));
	expect_more("copy", "", "cudaMemcpyAsync", q + 1000, 1000, ", \"source\": 0, \"stream\": 1");
	/* To the host, of nothing, and what fails: of those nothing is said. */
	OK(cudaMemcpy(host, (void *)p, 3000, cudaMemcpyDeviceToHost));
	OK(cudaMemcpyAsync((void *)p, host, 0, cudaMemcpyHostToDevice, NULL));
	FAILS(INVALID, cudaMemcpy(NULL, host, 3000, cudaMemcpyHostToDevice));
}

static void pitch(void)
{
	struct cudaPitchedPtr solid;
	CUdeviceptr_v1 low;
	unsigned low_pitch;
	size_t row;
	CUdeviceptr p;
	void *q;

	use_primary();
	OK(cuMemAllocPitch_v2(&p, &row, 1000, 20, 4));
	allocated("device", "cuMemAllocPitch_v2", p, row * 20);
	OK(cuMemAllocPitch(&low, &low_pitch, 700, 10, 4));
	allocated("device", "cuMemAllocPitch", low, (uint64_t)low_pitch * 10);
	OK(cudaMallocPitch(&q, &row, 600, 5));
	allocated("device", "cudaMallocPitch", (uintptr_t)q, row * 5);
	OK(cudaMalloc3D(&solid, (struct cudaExtent){ 600, 5, 3 }));
	allocated("device", "cudaMalloc3D", (uintptr_t)solid.ptr, solid.pitch * 5 * 3);
	FAILS(INVALID, cuMemAllocPitch_v2(&p, &row, 0, 20, 4));
	FAILS(INVALID, cuMemAllocPitch(&low, &low_pitch, 0, 20, 4));
	FAILS(NO_MEMORY, cudaMallocPitch(&q, &row, TOO_MUCH / MIB, MIB));
	refused("device", "cudaMallocPitch", TOO_MUCH);
}

static void managed(void)
{
	CUdeviceptr p;
	void *q;

	use_primary();
	OK(cuMemAllocManaged(&p, 5000, CU_MEM_ATTACH_GLOBAL));
	allocated("managed", "cuMemAllocManaged", p, 5000);
	OK(cudaMallocManaged(&q, 6000, cudaMemAttachGlobal));
	allocated("managed", "cudaMallocManaged", (uintptr_t)q, 6000);
	FAILS(INVALID, cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
	/* Residency is not the ledger's matter. */
	OK(cuMemPrefetchAsync_v2(p, 5000, (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE }, 0, NULL));
	OK(cuMemAdvise_v2(p, 5000, CU_MEM_ADVISE_SET_READ_MOSTLY,
			  (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE }));
}

static void pinned(void)
{
	void *p, *q, *r, *s;

	use_primary();
	OK(cuMemHostAlloc(&p, 5000, CU_MEMHOSTALLOC_PORTABLE));
	allocated("pinned", "cuMemHostAlloc", (uintptr_t)p, 5000);
	OK(cuMemAllocHost_v2(&q, 6000));
	allocated("pinned", "cuMemAllocHost_v2", (uintptr_t)q, 6000);
	OK(cuMemAllocHost(&r, 7000));
	allocated("pinned", "cuMemAllocHost", (uintptr_t)r, 7000);
	OK(cudaHostAlloc(&s, 8000, 0));
	allocated("pinned", "cudaHostAlloc", (uintptr_t)s, 8000);
	FAILS(INVALID, cuMemHostAlloc(&p, 0, 0));
	FAILS(INVALID, cuMemAllocHost_v2(&p, 0));
}

static void free_of_pinned_memory(void)
{
	void *p, *q;

	use_primary();
	OK(cuMemHostAlloc(&p, 5000, 0));
	allocated("pinned", "cuMemHostAlloc", (uintptr_t)p, 5000);
	OK(cudaMallocHost(&q, 6000));
	allocated("pinned", "cudaMallocHost", (uintptr_t)q, 6000);
	OK(cuMemFreeHost(p));
	freed("pinned", "cuMemFreeHost", (uintptr_t)p, 5000);
	OK(cudaFreeHost(q));
	freed("pinned", "cudaFreeHost", (uintptr_t)q, 6000);
	FAILS(INVALID, cuMemFreeHost(p));
	not_freed("pinned", "cuMemFreeHost", (uintptr_t)p);
	FAILS(INVALID, cudaFreeHost(q));
	not_freed("pinned", "cudaFreeHost", (uintptr_t)q);
}

static void registered(void)
{
	char *p = aligned_alloc(4096, 65536 * 3);

	use_primary();
	OK(cuMemHostRegister_v2(p, 65536, 0));
	allocated("registered", "cuMemHostRegister_v2", (uintptr_t)p, 65536);
	OK(cuMemHostRegister(p + 65536, 65536, 0));
	allocated("registered", "cuMemHostRegister", (uintptr_t)p + 65536, 65536);
	OK(cudaHostRegister(p + 65536 * 2, 65536, 0));
	allocated("registered", "cudaHostRegister", (uintptr_t)p + 65536 * 2, 65536);
	FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(p, 65536, 0));
	OK(cuMemHostUnregister(p));
	freed("registered", "cuMemHostUnregister", (uintptr_t)p, 65536);
	OK(cudaHostUnregister(p + 65536 * 2));
	freed("registered", "cudaHostUnregister", (uintptr_t)p + 65536 * 2, 65536);
	FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
	not_freed("registered", "cuMemHostUnregister", (uintptr_t)p);
	free(p);
}

/* ---- arrays ------------------------------------------------------------------------------------ */

#define ESTIMATED ", \"estimated\": true"

static void array_made(const char *call, const void *array, uint64_t bytes)
{
	expect_more("driver_alloc", "array", call, (uintptr_t)array, bytes, ESTIMATED);
}

static void arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR plane = { 100, 20, CU_AD_FORMAT_FLOAT, 4 };
	CUDA_ARRAY_DESCRIPTOR_v1 low = { 100, 0, CU_AD_FORMAT_HALF, 1 };
	CUDA_ARRAY3D_DESCRIPTOR solid = { 10, 20, 30, CU_AD_FORMAT_UNSIGNED_INT8, 2, 0 };
	CUDA_ARRAY3D_DESCRIPTOR later = { 64, 64, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING };
	CUDA_ARRAY3D_DESCRIPTOR_v1 low_solid = { 10, 20, 3, CU_AD_FORMAT_SIGNED_INT16, 1, 0 };
	struct cudaChannelFormatDesc d = { 32, 32, 0, 0, cudaChannelFormatKindFloat };
	cudaArray_t runtime;
	CUarray a;

	use_primary();
	OK(cuArrayCreate_v2(&a, &plane));
	array_made("cuArrayCreate_v2", a, 100 * 20 * 16);
	OK(cuArrayCreate(&a, &low));
	array_made("cuArrayCreate", a, 100 * 2);
	OK(cuArray3DCreate_v2(&a, &solid));
	array_made("cuArray3DCreate_v2", a, 10 * 20 * 30 * 2);
	OK(cuArray3DCreate(&a, &low_solid));
	array_made("cuArray3DCreate", a, 10 * 20 * 3 * 2);
	OK(cudaMallocArray(&runtime, &d, 50, 4, 0));
	array_made("cudaMallocArray", runtime, 50 * 4 * 8);
	OK(cudaMalloc3DArray(&runtime, &d, (struct cudaExtent){ 50, 4, 2 }, 0));
	array_made("cudaMalloc3DArray", runtime, 50 * 4 * 2 * 8);
	/* Such an array has no memory until some is mapped to it. */
	OK(cuArray3DCreate_v2(&a, &later));
	expect("driver_alloc", "array", "cuArray3DCreate_v2", (uintptr_t)a, 0);
	plane.NumChannels = 7;
	FAILS(INVALID, cuArrayCreate_v2(&a, &plane));
	solid = (CUDA_ARRAY3D_DESCRIPTOR){ MIB, MIB, 256, CU_AD_FORMAT_FLOAT, 1, 0 };
	FAILS(NO_MEMORY, cuArray3DCreate_v2(&a, &solid));
	refused("array", "cuArray3DCreate_v2", TOO_MUCH);
}

static void free_of_arrays(void)
{
	struct cudaChannelFormatDesc d = { 8, 0, 0, 0, cudaChannelFormatKindUnsigned };
	CUDA_ARRAY_DESCRIPTOR plane = { 100, 20, CU_AD_FORMAT_FLOAT, 1 };
	cudaArray_t runtime;
	CUarray a;

	use_primary();
	OK(cuArrayCreate_v2(&a, &plane));
	array_made("cuArrayCreate_v2", a, 8000);
	OK(cudaMallocArray(&runtime, &d, 64, 0, 0));
	array_made("cudaMallocArray", runtime, 64);
	OK(cuArrayDestroy(a));
	freed("array", "cuArrayDestroy", (uintptr_t)a, 8000);
	OK(cudaFreeArray(runtime));
	freed("array", "cudaFreeArray", (uintptr_t)runtime, 64);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(a));
	not_freed("array", "cuArrayDestroy", (uintptr_t)a);
}

static void mipmapped_arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	struct cudaChannelFormatDesc d = { 8, 0, 0, 0, cudaChannelFormatKindSigned };
	uint64_t bytes = 4 * (16 * 8 + 8 * 4 + 4 * 2 + 2 * 1 + 1);
	cudaMipmappedArray_t runtime;
	CUmipmappedArray a;

	use_primary();
	OK(cuMipmappedArrayCreate(&a, &shape, 10));
	array_made("cuMipmappedArrayCreate", a, bytes);
	OK(cudaMallocMipmappedArray(&runtime, &d, (struct cudaExtent){ 16, 16, 0 }, 2, 0));
	array_made("cudaMallocMipmappedArray", runtime, 16 * 16 + 8 * 8);
	FAILS(INVALID, cuMipmappedArrayCreate(&a, &shape, 0));
	OK(cuMipmappedArrayDestroy(a));
	freed("array", "cuMipmappedArrayDestroy", (uintptr_t)a, bytes);
	OK(cudaFreeMipmappedArray(runtime));
	freed("array", "cudaFreeMipmappedArray", (uintptr_t)runtime, 16 * 16 + 8 * 8);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(a));
	not_freed("array", "cuMipmappedArrayDestroy", (uintptr_t)a);
}

int main(int argc, char **argv)
{
	return RUN_CASES(argc, argv, CASE(device_memory), CASE(free_of_device_memory),
			 CASE(a_refused_free_restores_the_block), CASE(copies), CASE(pitch), CASE(managed), CASE(pinned),
			 CASE(free_of_pinned_memory), CASE(registered), CASE(arrays), CASE(free_of_arrays),
			 CASE(mipmapped_arrays));
}
