/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory and its pools. */
#include "rows.h"

static CUmemoryPool new_pool(CUmemLocationType where, CUmemAllocationType type)
{
	CUmemPoolProps props = { .allocType = type, .location = { .type = where }, .maxSize = 64 * MIB };
	CUmemoryPool pool;
	char detail[64];

	OK(cuMemPoolCreate(&pool, &props));
	snprintf(detail, sizeof(detail), ", \"detail\": %d",
		 where | (type == CU_MEM_ALLOCATION_TYPE_MANAGED ? 0x100 : 0));
	expect_more("object_new", "pool", "cuMemPoolCreate", (uintptr_t)pool, 64 * MIB, detail);
	return pool;
}

static void current_pool(void)
{
	CUdeviceptr p, q;
	CUstream stream;
	void *r, *s;

	use_primary();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&p, 1000, stream));
	allocated("pool", "cuMemAllocAsync", p, 1000);
	OK(cuMemAllocAsync_ptsz(&q, 2000, NULL));
	expect_more("driver_alloc", "pool", "cuMemAllocAsync_ptsz", q, 2000, ", \"stream\": 2");
	OK(cudaMallocAsync(&r, 3000, (cudaStream_t)CU_STREAM_LEGACY));
	expect_more("driver_alloc", "pool", "cudaMallocAsync", (uintptr_t)r, 3000, ", \"stream\": 1");
	OK(cudaMallocAsync_ptsz(&s, 4000, (cudaStream_t)CU_STREAM_PER_THREAD));
	expect_more("driver_alloc", "pool", "cudaMallocAsync_ptsz", (uintptr_t)s, 4000, ", \"stream\": 2");
	FAILS(INVALID, cuMemAllocAsync(&p, 0, stream));
	FAILS(NO_MEMORY, cuMemAllocAsync(&p, TOO_MUCH, stream));
	refused("pool", "cuMemAllocAsync", TOO_MUCH);
	FAILS(NO_MEMORY, cudaMallocAsync(&r, TOO_MUCH, NULL));
	refused("pool", "cudaMallocAsync", TOO_MUCH);
}

static void named_pool(void)
{
	CUmemoryPool pool;
	CUdeviceptr p, q;
	void *r, *s;

	use_primary();
	pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
	allocated("pool", "cuMemAllocFromPoolAsync", p, 1000);
	OK(cuMemAllocFromPoolAsync_ptsz(&q, 2000, pool, NULL));
	allocated("pool", "cuMemAllocFromPoolAsync_ptsz", q, 2000);
	OK(cudaMallocFromPoolAsync(&r, 3000, pool, NULL));
	allocated("pool", "cudaMallocFromPoolAsync", (uintptr_t)r, 3000);
	OK(cudaMallocFromPoolAsync_ptsz(&s, 4000, pool, NULL));
	allocated("pool", "cudaMallocFromPoolAsync_ptsz", (uintptr_t)s, 4000);
	FAILS(INVALID, cuMemAllocFromPoolAsync(&p, 1000, (CUmemoryPool)&pool, NULL));
	FAILS(NO_MEMORY, cuMemAllocFromPoolAsync(&p, TOO_MUCH, pool, NULL));
	refused("pool", "cuMemAllocFromPoolAsync", TOO_MUCH);
}

static void free_of_pool_memory(void)
{
	CUdeviceptr p, q, linear, by_free;
	void *r, *s;

	use_primary();
	OK(cuMemAllocAsync(&p, 1000, NULL));
	allocated("pool", "cuMemAllocAsync", p, 1000);
	OK(cuMemAllocAsync(&q, 2000, NULL));
	allocated("pool", "cuMemAllocAsync", q, 2000);
	OK(cudaMallocAsync(&r, 3000, NULL));
	allocated("pool", "cudaMallocAsync", (uintptr_t)r, 3000);
	OK(cudaMallocAsync(&s, 4000, NULL));
	allocated("pool", "cudaMallocAsync", (uintptr_t)s, 4000);
	OK(cuMemAllocAsync(&by_free, 5000, NULL));
	allocated("pool", "cuMemAllocAsync", by_free, 5000);
	OK(cuMemAlloc_v2(&linear, 6000));
	allocated("device", "cuMemAlloc_v2", linear, 6000);
	OK(cuMemFreeAsync(p, NULL));
	freed("pool", "cuMemFreeAsync", p, 1000);
	OK(cuMemFreeAsync_ptsz(q, NULL));
	freed("pool", "cuMemFreeAsync_ptsz", q, 2000);
	OK(cudaFreeAsync(r, NULL));
	freed("pool", "cudaFreeAsync", (uintptr_t)r, 3000);
	OK(cudaFreeAsync_ptsz(s, NULL));
	freed("pool", "cudaFreeAsync_ptsz", (uintptr_t)s, 4000);
	/* Each of the two calls frees memory of both kinds. */
	OK(cuMemFree_v2(by_free));
	freed("pool", "cuMemFree_v2", by_free, 5000);
	OK(cuMemFreeAsync(linear, NULL));
	freed("device", "cuMemFreeAsync", linear, 6000);
	OK(cuMemFreeAsync(0, NULL));
	FAILS(INVALID, cuMemFreeAsync(p, NULL));
	not_freed("pool", "cuMemFreeAsync", p);
}

/* Memory of such a pool is the host's, or managed; it is freed as any pool's is. */
static void pools_of_other_places(void)
{
	CUmemoryPool host, managed;
	CUdeviceptr p, q;

	use_primary();
	host = new_pool(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_ALLOCATION_TYPE_PINNED);
	managed = new_pool(CU_MEM_LOCATION_TYPE_NONE, CU_MEM_ALLOCATION_TYPE_MANAGED);
	OK(cuMemAllocFromPoolAsync(&p, 1000, host, NULL));
	allocated("pool_host", "cuMemAllocFromPoolAsync", p, 1000);
	OK(cuMemAllocFromPoolAsync(&q, 2000, managed, NULL));
	allocated("managed", "cuMemAllocFromPoolAsync", q, 2000);
	OK(cuMemFreeAsync(p, NULL));
	freed("pool_host", "cuMemFreeAsync", p, 1000);
	OK(cuMemFree_v2(q));
	freed("managed", "cuMemFree_v2", q, 2000);
}

#define ON_1 ", \"device\": 1"

/* What is taken from a pool lies where the pool does, whatever device is current. */
static void pools_of_other_devices(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 } };
	CUmemoryPool pool, usual;
	CUdeviceptr p;
	void *q;

	use_primary();
	OK(cuMemPoolCreate(&pool, &props));
	expect_more("object_new", "pool", "cuMemPoolCreate", (uintptr_t)pool, 0, ON_1);
	OK(cuDeviceGetDefaultMemPool(&usual, 1));
	OK(cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
	expect_more("driver_alloc", "pool", "cuMemAllocFromPoolAsync", p, 1000, ON_1);
	OK(cudaMallocFromPoolAsync(&q, 2000, usual, NULL));
	expect_more("driver_alloc", "pool", "cudaMallocFromPoolAsync", (uintptr_t)q, 2000, ON_1);
	FAILS(NO_MEMORY, cuMemAllocFromPoolAsync(&p, TOO_MUCH, pool, NULL));
	expect_more("alloc_failed", "pool", "cuMemAllocFromPoolAsync", 0, TOO_MUCH, ON_1);
	OK(cuMemPoolTrimTo(pool, 4096));
	expect_more("object_set", "pool", "cuMemPoolTrimTo", (uintptr_t)pool, 4096, ON_1);
	OK(cuMemPoolDestroy(pool));
	gone("pool", "cuMemPoolDestroy", pool);
}

static void pool_life(void)
{
	struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned,
					  .location.type = cudaMemLocationTypeDevice };
	CUmemPoolProps nowhere = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 77 } };
	cudaMemPool_t runtime;
	CUmemoryPool pool;

	use_primary();
	pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cudaMemPoolCreate(&runtime, &props));
	born("pool", "cudaMemPoolCreate", runtime, 0);
	FAILS(101, cuMemPoolCreate(&pool, &nowhere));
	OK(cuMemPoolDestroy(pool));
	gone("pool", "cuMemPoolDestroy", pool);
	OK(cudaMemPoolDestroy(runtime));
	gone("pool", "cudaMemPoolDestroy", runtime);
	FAILS(INVALID, cuMemPoolDestroy(pool));
}

static void set(const char *call, const void *pool, uint64_t value, unsigned which)
{
	char more[64];

	snprintf(more, sizeof(more), ", \"which\": %u", which);
	expect_more("object_set", "pool", call, (uintptr_t)pool, value, more);
}

static void trim(void)
{
	CUmemoryPool pool;

	use_primary();
	pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cuMemPoolTrimTo(pool, 4096));
	set("cuMemPoolTrimTo", pool, 4096, 0);
	OK(cudaMemPoolTrimTo(pool, 0));
	set("cudaMemPoolTrimTo", pool, 0, 0);
	FAILS(INVALID, cuMemPoolTrimTo((CUmemoryPool)&pool, 0));
}

static void attributes(void)
{
	cuuint64_t threshold = 32 * MIB;
	CUmemoryPool pool;
	int no = 0;

	use_primary();
	pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	set("cuMemPoolSetAttribute", pool, 32 * MIB, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
	OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &no));
	set("cudaMemPoolSetAttribute", pool, 0, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
	FAILS(INVALID, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &threshold));
}

static void which_pool_is_current(void)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	struct cudaMemLocation also_here = { .type = cudaMemLocationTypeDevice };
	CUmemoryPool pool;

	use_primary();
	pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cuDeviceSetMemPool(0, pool));
	set("cuDeviceSetMemPool", pool, 0, 0);
	OK(cudaDeviceSetMemPool(0, pool));
	set("cudaDeviceSetMemPool", pool, 0, 0);
	OK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	set("cuMemSetMemPool", pool, 0, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cudaMemSetMemPool(&also_here, cudaMemAllocationTypePinned, pool));
	set("cudaMemSetMemPool", pool, 0, CU_MEM_ALLOCATION_TYPE_PINNED);
	FAILS(INVALID, cuDeviceSetMemPool(1, pool));
	FAILS(INVALID, cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, (CUmemoryPool)&here));
}

#define IMPORTED ", \"detail\": 513"

/* What a process gets from another counts there, and never here. */
static void pools_of_other_processes(void)
{
	struct cudaMemPoolPtrExportData runtime_data;
	CUmemPoolPtrExportData data;
	CUmemoryPool pool, imported;
	cudaMemPool_t runtime;
	CUdeviceptr p, q;
	void *r;
	int fd;

	use_primary();
	pool = new_pool(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_PINNED);
	OK(cuMemAllocFromPoolAsync(&p, 5000, pool, NULL));
	allocated("pool", "cuMemAllocFromPoolAsync", p, 5000);
	OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	born("export", "cuMemPoolExportToShareableHandle", pool, 0);
	OK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
	born("export", "cudaMemPoolExportToShareableHandle", pool, 0);
	OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	expect_more("object_new", "pool", "cuMemPoolImportFromShareableHandle", (uintptr_t)imported, 0,
		    IMPORTED);
	OK(cudaMemPoolImportFromShareableHandle(&runtime, (void *)(intptr_t)fd,
						cudaMemHandleTypePosixFileDescriptor, 0));
	expect_more("object_new", "pool", "cudaMemPoolImportFromShareableHandle", (uintptr_t)runtime, 0,
		    IMPORTED);
	OK(cuMemPoolExportPointer(&data, p));
	born("export", "cuMemPoolExportPointer", (void *)p, 0);
	OK(cudaMemPoolExportPointer(&runtime_data, (void *)p));
	born("export", "cudaMemPoolExportPointer", (void *)p, 0);
	OK(cuMemPoolImportPointer(&q, imported, &data));
	allocated("ipc", "cuMemPoolImportPointer", q, 5000);
	OK(cudaMemPoolImportPointer(&r, imported, &runtime_data));
	allocated("ipc", "cudaMemPoolImportPointer", (uintptr_t)r, 5000);
	OK(cuMemFreeAsync(q, NULL));
	freed("ipc", "cuMemFreeAsync", q, 5000);
	OK(cuMemFree_v2((CUdeviceptr)r));
	freed("ipc", "cuMemFree_v2", (uintptr_t)r, 5000);
	FAILS(INVALID, cuMemPoolExportToShareableHandle(&fd, (CUmemoryPool)&fd,
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	FAILS(INVALID, cuMemPoolExportPointer(&data, 42));
	memset(&data, 0, sizeof(data));
	FAILS(INVALID, cuMemPoolImportPointer(&q, imported, &data));
}

int main(int argc, char **argv)
{
	return RUN_CASES(argc, argv, CASE(current_pool), CASE(named_pool), CASE(free_of_pool_memory),
			 CASE(pools_of_other_places), CASE(pools_of_other_devices), CASE(pool_life),
			 CASE(trim), CASE(attributes), CASE(which_pool_is_current),
			 CASE(pools_of_other_processes));
}
