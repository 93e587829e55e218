/* SPDX-License-Identifier: MIT */
/* What a pointer is: cuPointerGetAttribute and its relatives, and IPC handles to other processes' memory. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simgpu/internal.h"

int sim_pointer_device(const void *p)
{
	struct sim_block *block;
	int device = -1;

	sim_lock();
	block = sim_blocks_find(&sim_blocks, (uintptr_t)p);
	if (block && sim_kind_is_device(block->kind))
		device = block->device;
	sim_unlock();
	return device;
}

static bool is_host(const struct sim_block *block)
{
	return block->kind == SIM_PINNED || block->kind == SIM_REGISTERED;
}

/* Write attribute A of BLOCK, which contains PTR, to *OUT. */
static CUresult attribute(void *out, CUpointer_attribute a, const struct sim_block *block, CUdeviceptr ptr)
{
	switch (a) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)out = (CUcontext)sim_context_primary(block->device);
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)out = is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)out = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!is_host(block) && block->kind != SIM_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)out = (void *)ptr;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned *)out = 0;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)out = block->id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)out = block->kind == SIM_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)out = block->device;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)out = block->kind == SIM_LINEAR || block->kind == SIM_SLICE;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)out = block->start;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)out = block->requested_bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)out = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(void **)out = block->kind == SIM_POOLED ? block->owner : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)out = block->id;
		break;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr ptr)
{
	CUresult ret = CUDA_ERROR_INVALID_VALUE;
	struct sim_block *block;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	block = sim_blocks_find(&sim_blocks, ptr);
	if (block)
		ret = attribute(data, a, block, ptr);
	sim_unlock();
	return ret;
}

/* The size of what attribute A writes: an attribute that does not apply reads as zeros of that size. */
static size_t attribute_bytes(CUpointer_attribute a)
{
	switch (a) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	default:
		return 4;
	}
}

CUresult cuPointerGetAttributes(unsigned int nr, CUpointer_attribute *attributes, void **data,
				CUdeviceptr ptr)
{
	struct sim_block *block;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	sim_lock();
	block = sim_blocks_find(&sim_blocks, ptr);
	for (unsigned i = 0; i < nr; i++) {
		memset(data[i], 0, attribute_bytes(attributes[i]));
		if (block)
			attribute(data[i], attributes[i], block, ptr);
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = CU_DEVICE_INVALID;
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr ptr)
{
	struct sim_block *block;

	if (!value || a != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	block = sim_blocks_find(&sim_blocks, ptr);
	sim_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- IPC: the opener sees zeros at an address of its own; the owner alone is charged --------- */

struct ipc_handle {
	char magic[8];
	size_t bytes;
	int device;
	int pid;
	uintptr_t address;
};

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "an IPC handle has room for 64 bytes");

static const char ipc_magic[8] = "simgpu1";

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	struct ipc_handle ipc = { .pid = getpid() };
	struct sim_block *block;

	sim_lock();
	block = sim_blocks_find(&sim_blocks, dptr);
	if (block && (block->kind == SIM_LINEAR || block->kind == SIM_SLICE)) {
		ipc.bytes = block->requested_bytes;
		ipc.device = block->device;
		ipc.address = block->start;
	} else {
		block = NULL;
	}
	sim_unlock();
	if (!handle || !block)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(ipc.magic, ipc_magic, sizeof(ipc.magic));
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	struct sim_block block = { .kind = SIM_IMPORTED, .flags = flags };
	CUresult ret = sim_context_need(&block.device);
	struct ipc_handle ipc;

	if (ret)
		return ret;
	memcpy(&ipc, &handle, sizeof(ipc));
	if (!dptr || memcmp(ipc.magic, ipc_magic, sizeof(ipc_magic)))
		return CUDA_ERROR_INVALID_VALUE;
	block.requested_bytes = ipc.bytes;
	block.bytes = sim_round_up(ipc.bytes, SIM_GRANULE);
	block.start = (uintptr_t)sim_map(block.bytes, SIM_GRANULE, PROT_READ | PROT_WRITE);
	sim_lock();
	sim_blocks_add(&sim_blocks, &block);
	sim_unlock();
	*dptr = block.start;
	return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct sim_block *found, block;

	sim_lock();
	found = sim_blocks_find(&sim_blocks, dptr);
	if (!found || found->kind != SIM_IMPORTED || !sim_blocks_remove(&sim_blocks, dptr, &block)) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_forget((void *)block.start, block.bytes);
	sim_unmap((void *)block.start, block.bytes);
	sim_unlock();
	return CUDA_SUCCESS;
}
