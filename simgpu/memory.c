/* SPDX-License-Identifier: MIT */
/* Linear device memory, slabs for the small ones, and pinned, registered and managed host memory. */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/callback.h"

/*
 * The driver takes memory in granules of 2 MiB. Requests below 1 MiB share a granule (a slab), in slices of
 * 512 B; larger ones get granules of their own.
 */
#define SLICE_BYTES 512
#define SLAB_LIMIT SIM_MIB(1)
#define SLAB_SLICES (SIM_GRANULE / SLICE_BYTES)

struct slab {
	struct slab *next;
	char *base;
	int device;
	struct sim_units slices;
};

static struct slab *slabs;

static struct slab *slab_new(int device)
{
	struct slab *slab;

	if (!sim_charge(device, SIM_GRANULE))
		return NULL;
	slab = sim_zalloc(sizeof(*slab));
	slab->device = device;
	slab->base = sim_map(SIM_GRANULE, SIM_GRANULE, PROT_READ | PROT_WRITE);
	slab->slices.used = sim_zalloc(SLAB_SLICES / 8);
	slab->slices.nr = SLAB_SLICES;
	slab->next = slabs;
	slabs = slab;
	return slab;
}

static void slab_free(struct slab *slab)
{
	struct slab **link = &slabs;

	while (*link != slab)
		link = &(*link)->next;
	*link = slab->next;
	sim_unmap(slab->base, SIM_GRANULE);
	sim_uncharge(slab->device, SIM_GRANULE);
	sim_units_release(&slab->slices);
	free(slab);
}

static void *slice_alloc(int device, size_t bytes, struct sim_block *block)
{
	size_t count = (bytes + SLICE_BYTES - 1) / SLICE_BYTES, at = SIZE_MAX;
	struct slab *slab;

	for (slab = slabs; slab; slab = slab->next) {
		if (slab->device != device)
			continue;
		at = sim_units_take(&slab->slices, count, false);
		if (at != SIZE_MAX)
			break;
	}
	if (!slab) {
		slab = slab_new(device);
		if (!slab)
			return NULL;
		at = sim_units_take(&slab->slices, count, false);
	}
	block->kind = SIM_SLICE;
	block->bytes = count * SLICE_BYTES;
	block->owner = slab;
	return slab->base + at * SLICE_BYTES;
}

static void *linear_alloc(int device, size_t bytes, struct sim_block *block)
{
	block->kind = SIM_LINEAR;
	block->bytes = sim_round_up(bytes, SIM_GRANULE);
	if (block->bytes < bytes || !sim_charge(device, block->bytes))
		return NULL;
	return sim_map(block->bytes, SIM_GRANULE, PROT_READ | PROT_WRITE);
}

/* The current context if a program created it: what is allocated in it is destroyed with it. */
static struct sim_context *program_context(void)
{
	struct sim_context *current = sim_context_current();

	return current && !current->primary ? current : NULL;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	struct sim_block block = { .requested_bytes = bytes };
	CUresult ret = sim_context_need(&block.device);
	void *p;

	if (ret)
		return ret;
	if (!dptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_capture_prohibits())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_lock();
	p = bytes < SLAB_LIMIT ? slice_alloc(block.device, bytes, &block)
			       : linear_alloc(block.device, bytes, &block);
	if (p) {
		block.start = (uintptr_t)p;
		block.context = program_context();
		sim_blocks_add(&sim_blocks, &block);
		*dptr = (CUdeviceptr)p;
	}
	sim_unlock();
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, &block, NULL, 0);
	return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	size_t row = sim_round_up(width, 512);

	(void)element;
	if (!pitch || !width || !height || row < width || row > SIZE_MAX / height)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = row;
	return cuMemAlloc_v2(dptr, row * height);
}

/* Give back what BLOCK, just taken out of the table, held. Locked. */
static void release(const struct sim_block *block)
{
	struct slab *slab = block->owner;

	switch (block->kind) {
	case SIM_LINEAR:
		sim_forget((void *)block->start, block->bytes);
		sim_unmap((void *)block->start, block->bytes);
		sim_uncharge(block->device, block->bytes);
		break;
	case SIM_SLICE:
		sim_fresh((void *)block->start, block->bytes);
		sim_units_give(&slab->slices, (block->start - (uintptr_t)slab->base) / SLICE_BYTES,
			       block->bytes / SLICE_BYTES);
		if (!slab->slices.nr_used)
			slab_free(slab);
		break;
	case SIM_POOLED:
		sim_pool_release(block);
		break;
	case SIM_GRAPH_MEMORY:
		sim_graph_memory_release(block);
		break;
	default:
		sim_forget((void *)block->start, block->bytes);
		sim_unmap((void *)block->start, block->bytes);
		break;
	}
}

/* What another process's pool gave is freed like one's own; what an IPC handle opened is closed instead. */
static bool can_free(const struct sim_block *b)
{
	return b->kind == SIM_LINEAR || b->kind == SIM_SLICE || b->kind == SIM_POOLED || b->kind == SIM_MANAGED ||
	       (b->kind == SIM_IMPORTED && b->owner);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct sim_block block = { 0 }, *found;
	CUresult ret = CUDA_SUCCESS;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!dptr)
		return CUDA_SUCCESS;
	if (sim_capture_prohibits())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_lock();
	found = sim_blocks_find(&sim_blocks, dptr);
	if (found && found->kind == SIM_GRAPH_MEMORY) {
		ret = sim_graph_memory_free(dptr);
		sim_unlock();
		return ret;
	}
	if (!found || !can_free(found) || !sim_blocks_remove(&sim_blocks, dptr, &block))
		ret = CUDA_ERROR_INVALID_VALUE;
	else
		release(&block);
	sim_unlock();
	if (!ret)
		sim_record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, &block, NULL, 0);
	return ret;
}

/* The walk over blocks has no room for an argument of ours: sim_lock() guards these two. */
static int reset_device;
static const struct sim_context *reset_context;
static const struct sim_block *reset_block;

static void find_to_reset(const void *node, VISIT visit, int depth)
{
	const struct sim_block *block = *(const struct sim_block *const *)node;

	(void)depth;
	if ((visit == postorder || visit == leaf) && block->device == reset_device &&
	    block->context == reset_context && block->kind != SIM_MAPPED && block->kind != SIM_GLOBAL)
		reset_block = block;
}

void sim_memory_reset(int device, const struct sim_context *context)
{
	struct sim_block block;

	reset_device = device;
	reset_context = context;
	for (;;) {
		reset_block = NULL;
		twalk(sim_blocks.root, find_to_reset);
		if (!reset_block || !sim_blocks_remove(&sim_blocks, reset_block->start, &block))
			break;
		if (block.kind != SIM_REGISTERED)
			release(&block);
	}
	if (!context)
		sim_graph_memory_trim(device);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct sim_memory memory;
	int device;
	CUresult ret = sim_context_need(&device);

	if (ret)
		return ret;
	if (!free_bytes || !total_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	memory = sim_device_memory(sim_device_physical(device));
	*total_bytes = memory.total_bytes;
	*free_bytes = memory.free_bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr)
{
	struct sim_block *block;

	sim_lock();
	block = sim_blocks_find(&sim_blocks, dptr);
	if (block && base)
		*base = block->start;
	if (block && bytes)
		*bytes = block->requested_bytes;
	sim_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUdeviceptr sim_global_alloc(int device, size_t bytes)
{
	struct sim_block block = { .kind = SIM_GLOBAL, .device = device, .requested_bytes = bytes,
				   .bytes = sim_round_up(bytes, 4096) };

	block.start = (uintptr_t)sim_map(block.bytes, 4096, PROT_READ | PROT_WRITE);
	sim_lock();
	sim_blocks_add(&sim_blocks, &block);
	sim_unlock();
	return block.start;
}

void sim_global_free(CUdeviceptr p)
{
	struct sim_block block;

	sim_lock();
	if (sim_blocks_remove(&sim_blocks, p, &block))
		release(&block);
	sim_unlock();
}

/* ---- host memory ----------------------------------------------------------------------------- */

static CUresult host_alloc(void **pp, size_t bytes, enum sim_kind kind, unsigned flags)
{
	struct sim_block block = { .requested_bytes = bytes, .bytes = sim_round_up(bytes, 4096), .kind = kind,
				   .flags = flags };
	CUresult ret = sim_context_need(&block.device);

	if (ret)
		return ret;
	if (!pp || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*pp = sim_map(block.bytes, kind == SIM_MANAGED ? SIM_GRANULE : 4096, PROT_READ | PROT_WRITE);
	block.start = (uintptr_t)*pp;
	block.context = program_context();
	sim_lock();
	sim_blocks_add(&sim_blocks, &block);
	sim_unlock();
	sim_record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, &block, NULL, 0);
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
	return host_alloc(pp, bytes, SIM_PINNED, flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytes)
{
	return host_alloc(pp, bytes, SIM_PINNED, 0);
}

/* Not charged: pages of managed memory move to the device when a kernel touches them, and none runs here. */
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	return host_alloc((void **)dptr, bytes, SIM_MANAGED, flags);
}

CUresult cuMemFreeHost(void *p)
{
	struct sim_block *found, block;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!p)
		return CUDA_SUCCESS;
	sim_lock();
	found = sim_blocks_find(&sim_blocks, (uintptr_t)p);
	if (!found || found->kind != SIM_PINNED || !sim_blocks_remove(&sim_blocks, (uintptr_t)p, &block)) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	release(&block);
	sim_unlock();
	sim_record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, &block, NULL, 0);
	return CUDA_SUCCESS;
}

/* Whether any block overlaps [START, START + BYTES). Locked. */
static bool overlaps(uintptr_t start, size_t bytes)
{
	for (uintptr_t at = start; at < start + bytes; at += 4096)
		if (sim_blocks_find(&sim_blocks, at))
			return true;
	return sim_blocks_find(&sim_blocks, start + bytes - 1);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	struct sim_block block = { .start = (uintptr_t)p, .bytes = bytes, .requested_bytes = bytes,
				   .kind = SIM_REGISTERED, .flags = flags };
	CUresult ret = sim_context_need(&block.device);

	if (ret)
		return ret;
	if (!p || !bytes || block.start + bytes < block.start)
		return CUDA_ERROR_INVALID_VALUE;
	block.context = program_context();
	sim_lock();
	if (overlaps(block.start, bytes))
		ret = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else
		sim_blocks_add(&sim_blocks, &block);
	sim_unlock();
	return ret;
}

CUresult cuMemHostUnregister(void *p)
{
	struct sim_block *found, block;
	CUresult ret = CUDA_SUCCESS;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	sim_lock();
	found = sim_blocks_find(&sim_blocks, (uintptr_t)p);
	if (!found || found->kind != SIM_REGISTERED || !sim_blocks_remove(&sim_blocks, (uintptr_t)p, &block))
		ret = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	sim_unlock();
	return ret;
}

/* Host memory has the same address on the device: unified addressing. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
	struct sim_block *block;

	if (!dptr || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	block = sim_blocks_find(&sim_blocks, (uintptr_t)p);
	sim_unlock();
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = (CUdeviceptr)p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
	CUresult ret = CUDA_ERROR_INVALID_VALUE;
	struct sim_block *block;

	sim_lock();
	block = sim_blocks_find(&sim_blocks, (uintptr_t)p);
	if (flags && block && (block->kind == SIM_PINNED || block->kind == SIM_REGISTERED)) {
		*flags = block->flags;
		ret = CUDA_SUCCESS;
	}
	sim_unlock();
	return ret;
}
