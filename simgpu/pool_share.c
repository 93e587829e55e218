/* SPDX-License-Identifier: MIT */
/*
 * Pools of several processes. As with other shared memory here, the importer sees zeros at addresses of its
 * own, and the owner alone is charged.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simgpu/internal.h"

/* What an exported pointer is to the importer. */
struct shared_pointer {
	char magic[8];
	uint64_t bytes;
};

static const char magic[8] = "simpool";

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, CUmemAllocationHandleType type,
					  unsigned long long flags)
{
	cuuint64_t used;
	int fd;

	if (!out || flags || cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	fd = memfd_create("simgpu-pool", MFD_CLOEXEC);
	if (fd < 0)
		sim_host_limit("memfd_create failed", "raise `ulimit -n` (open files)");
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

/* A pool to name when pointers are imported; nothing can be allocated from it. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
					    unsigned long long flags)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUresult ret = sim_context_need(&props.location.id);
	struct stat st;

	if (ret || !pool || flags)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fstat((int)(intptr_t)handle, &st))
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemPoolCreate(pool, &props);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr dptr)
{
	struct shared_pointer p = { .bytes = 0 };
	struct sim_block *block;

	sim_lock();
	block = sim_blocks_find(&sim_blocks, dptr);
	if (block && block->kind == SIM_POOLED)
		p.bytes = block->requested_bytes;
	sim_unlock();
	if (!data || !p.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(p.magic, magic, sizeof(magic));
	memset(data, 0, sizeof(*data));
	memcpy(data, &p, sizeof(p));
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *dptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	struct sim_block block = { .kind = SIM_IMPORTED, .owner = pool };
	CUresult ret = sim_context_need(&block.device);
	struct shared_pointer p;
	cuuint64_t used;

	if (ret)
		return ret;
	if (!dptr || !data || cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&p, data, sizeof(p));
	if (memcmp(p.magic, magic, sizeof(magic)) || !p.bytes || p.bytes > SIM_CAPACITY_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	block.requested_bytes = p.bytes;
	block.bytes = sim_round_up(p.bytes, SIM_GRANULE);
	block.start = (uintptr_t)sim_map(block.bytes, SIM_GRANULE, PROT_READ | PROT_WRITE);
	sim_lock();
	sim_blocks_add(&sim_blocks, &block);
	sim_unlock();
	*dptr = block.start;
	return CUDA_SUCCESS;
}
