/* SPDX-License-Identifier: MIT */
/* Virtual memory, and memory of other processes. */
#include "rows.h"

static const CUmemAllocationProp on_device = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

static CUmemGenericAllocationHandle physical(size_t bytes)
{
	CUmemGenericAllocationHandle h;

	OK(cuMemCreate(&h, bytes, &on_device, 0));
	allocated("handle", "cuMemCreate", h, bytes);
	return h;
}

static CUdeviceptr range(size_t bytes)
{
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	allocated("reserved", "cuMemAddressReserve", p, bytes);
	return p;
}

static void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle h)
{
	char more[64];

	OK(cuMemMap(at, bytes, 0, h, 0));
	snprintf(more, sizeof(more), ", \"handle\": %llu", h);
	expect_more("map", "", "cuMemMap", at, bytes, more);
}

static void physical_memory(void)
{
	CUmemAllocationProp on_host = on_device, on_node = on_device, second = on_device;
	CUmemGenericAllocationHandle h, bad;

	use_primary();
	physical(2 * MIB);
	second.location.id = 1;
	OK(cuMemCreate(&h, 4 * MIB, &second, 0));
	expect_more("driver_alloc", "handle", "cuMemCreate", h, 4 * MIB, ", \"device\": 1");
	on_host.location.type = CU_MEM_LOCATION_TYPE_HOST;
	OK(cuMemCreate(&h, 6 * MIB, &on_host, 0));
	allocated("handle_host", "cuMemCreate", h, 6 * MIB);
	on_node.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	OK(cuMemCreate(&h, 8 * MIB, &on_node, 0));
	allocated("handle_host", "cuMemCreate", h, 8 * MIB);
	FAILS(INVALID, cuMemCreate(&bad, 1000, &on_device, 0));
	FAILS(NO_MEMORY, cuMemCreate(&bad, TOO_MUCH, &on_device, 0));
	refused("handle", "cuMemCreate", TOO_MUCH);
	OK(cuMemRelease(h));
	freed("handle_host", "cuMemRelease", h, 8 * MIB);
}

static void references(void)
{
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr p;

	use_primary();
	h = physical(2 * MIB);
	p = range(4 * MIB);
	map(p, 2 * MIB, h);
	OK(cuMemRetainAllocationHandle(&again, (void *)p));
	expect("handle_retain", "", "cuMemRetainAllocationHandle", again, 0);
	OK(cuMemRelease(h));
	freed("handle", "cuMemRelease", h, 2 * MIB);
	OK(cuMemRelease(again));
	freed("handle", "cuMemRelease", h, 2 * MIB);
	OK(cuMemUnmap(p, 2 * MIB)); /* with this the memory goes */
	expect("unmap", "", "cuMemUnmap", p, 2 * MIB);
	live(0);
	FAILS(INVALID, cuMemRelease(h));
	not_freed("handle", "cuMemRelease", h);
	FAILS(INVALID, cuMemRetainAllocationHandle(&again, (void *)p));
}

static void address_ranges(void)
{
	CUdeviceptr p, q;

	use_primary();
	p = range(16 * MIB);
	FAILS(INVALID, cuMemAddressReserve(&q, 1000, 0, 0, 0));
	FAILS(INVALID, cuMemAddressFree(p, 2 * MIB));
	expect("driver_free", "reserved", "cuMemAddressFree", p, 16 * MIB);
	expect("free_failed", "", "cuMemAddressFree", p, 16 * MIB);
	OK(cuMemAddressFree(p, 16 * MIB));
	freed("reserved", "cuMemAddressFree", p, 16 * MIB);
}

/* One call ends several mappings; one that fails ends none of them, and they stay in the ledger. */
static void mappings(void)
{
	CUmemGenericAllocationHandle h, other;
	CUdeviceptr p;

	use_primary();
	h = physical(2 * MIB);
	other = physical(4 * MIB);
	p = range(8 * MIB);
	map(p, 2 * MIB, h);
	map(p + 2 * MIB, 4 * MIB, other);
	FAILS(INVALID, cuMemMap(p, 2 * MIB, 0, h, 0));
	FAILS(INVALID, cuMemUnmap(p, 4 * MIB)); /* ends within the second */
	expect("unmap", "", "cuMemUnmap", p, 4 * MIB);
	expect("free_failed", "", "cuMemUnmap", p, 6 * MIB);
	OK(cuMemSetAccess(p, 6 * MIB, &(CUmemAccessDesc){ .location = on_device.location, .flags = 3 }, 1));
	OK(cuMemUnmap(p, 6 * MIB));
	expect("unmap", "", "cuMemUnmap", p, 6 * MIB);
	FAILS(INVALID, cuMemUnmap(p, 6 * MIB));
	expect("unmap", "", "cuMemUnmap", p, 6 * MIB);
	expect("free_failed", "", "cuMemUnmap", p, 0);
	OK(cuMemRelease(h));
	freed("handle", "cuMemRelease", h, 2 * MIB);
	live(4 * MIB);
}

static void tiles(CUresult (*call)(CUarrayMapInfo *, unsigned, CUstream), const char *name)
{
	CUDA_ARRAY3D_DESCRIPTOR sparse = { 1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE };
	CUmemGenericAllocationHandle h = physical(2 * MIB);
	CUarrayMapInfo info[2] = { 0 };
	CUarray a;
	char more[64];

	OK(cuArray3DCreate_v2(&a, &sparse));
	allocated("array", "cuArray3DCreate_v2", (uintptr_t)a, 0);
	for (int i = 0; i < 2; i++) {
		info[i].resourceType = CU_RESOURCE_TYPE_ARRAY;
		info[i].resource.array = a;
		info[i].subresource.sparseLevel.offsetX = 128 * (unsigned)i;
		info[i].memOperationType = CU_MEM_OPERATION_TYPE_MAP;
		info[i].memHandle.memHandle = h;
	}
	OK(call(info, 2, NULL));
	snprintf(more, sizeof(more), ", \"handle\": %llu", h);
	for (int i = 0; i < 2; i++)
		printf("{\"kind\": \"map\", \"what\": \"\", \"call\": \"%s\", \"size\": 1%s}\n", name, more);
	FAILS(INVALID, call(info, 1, NULL));
	info[0].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	OK(call(info, 1, NULL));
	printf("{\"kind\": \"unmap\", \"what\": \"\", \"call\": \"%s\", \"size\": 1}\n", name);
	OK(cuMemRelease(h));
	freed("handle", "cuMemRelease", h, 2 * MIB);
	info[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	OK(call(&info[1], 1, NULL)); /* with this the memory goes */
	printf("{\"kind\": \"unmap\", \"what\": \"\", \"call\": \"%s\", \"size\": 1}\n", name);
	live(0);
}

static void sparse_arrays(void)
{
	use_primary();
	tiles(cuMemMapArrayAsync, "cuMemMapArrayAsync");
	tiles(cuMemMapArrayAsync_ptsz, "cuMemMapArrayAsync_ptsz");
}

static void handles_of_other_processes(void)
{
	CUmemGenericAllocationHandle h, imported;
	CUdeviceptr p;
	int fd;

	use_primary();
	h = physical(2 * MIB);
	OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	born("export", "cuMemExportToShareableHandle", (void *)(uintptr_t)h, 0);
	OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	allocated("handle_imported", "cuMemImportFromShareableHandle", imported, 0);
	p = range(2 * MIB);
	map(p, 2 * MIB, imported);
	OK(cuMemUnmap(p, 2 * MIB));
	expect("unmap", "", "cuMemUnmap", p, 2 * MIB);
	OK(cuMemRelease(imported));
	freed("handle_imported", "cuMemRelease", imported, 0);
	FAILS(INVALID,
	      cuMemExportToShareableHandle(&fd, imported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	FAILS(INVALID, cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)-1,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

static void ipc(void)
{
	cudaIpcMemHandle_t runtime;
	CUipcMemHandle handle;
	CUdeviceptr p, q, r;
	void *s;

	use_primary();
	OK(cuMemAlloc_v2(&p, 3 * MIB));
	allocated("device", "cuMemAlloc_v2", p, 3 * MIB);
	OK(cuIpcGetMemHandle(&handle, p));
	born("export", "cuIpcGetMemHandle", (void *)p, 0);
	OK(cudaIpcGetMemHandle(&runtime, (void *)p));
	born("export", "cudaIpcGetMemHandle", (void *)p, 0);
	FAILS(INVALID, cuIpcGetMemHandle(&handle, 42));
	OK(cuIpcOpenMemHandle_v2(&q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	allocated("ipc", "cuIpcOpenMemHandle_v2", q, 3 * MIB);
	OK(cuIpcOpenMemHandle(&r, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	allocated("ipc", "cuIpcOpenMemHandle", r, 3 * MIB);
	OK(cudaIpcOpenMemHandle(&s, runtime, cudaIpcMemLazyEnablePeerAccess));
	allocated("ipc", "cudaIpcOpenMemHandle", (uintptr_t)s, 3 * MIB);
	OK(cuIpcCloseMemHandle(q));
	freed("ipc", "cuIpcCloseMemHandle", q, 3 * MIB);
	OK(cudaIpcCloseMemHandle(s));
	freed("ipc", "cudaIpcCloseMemHandle", (uintptr_t)s, 3 * MIB);
	FAILS(INVALID, cuIpcCloseMemHandle(q));
	not_freed("ipc", "cuIpcCloseMemHandle", q);
	memset(&handle, 0, sizeof(handle));
	FAILS(INVALID, cuIpcOpenMemHandle_v2(&q, handle, 1));
}

int main(int argc, char **argv)
{
	return RUN_CASES(argc, argv, CASE(physical_memory), CASE(references), CASE(address_ranges),
			 CASE(mappings), CASE(sparse_arrays), CASE(handles_of_other_processes), CASE(ipc));
}
