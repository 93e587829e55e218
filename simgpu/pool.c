/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered pools. A pool's used bytes are exact, in units of 512 B; what it reserves grows in steps and
 * is trimmed at synchronisation down to its release threshold. How fragmented a real pool gets is not
 * documented, so reserved bytes are a lower bound.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/callback.h"

#define POOL_UNIT 512
#define POOL_STEP SIM_MIB(32)

struct sim_pool {
	struct sim_pool *next;
	bool initialised;
	int device;			/* -1: host memory, not charged */
	bool user;			/* made by cuMemPoolCreate */
	bool dying;			/* destroyed, but some of its blocks live */
	CUmemPoolProps props;
	uint64_t threshold;
	uint64_t used, used_high, reserved, reserved_high;
	int settings[4];		/* the three reuse policies, by attribute */
};

static struct sim_pool *pools;
static struct sim_pool default_pools[SIM_MAX_DEVICES];
static struct sim_pool *current_pools[SIM_MAX_DEVICES];

static void pool_init(struct sim_pool *pool, int device)
{
	pool->initialised = true;
	pool->device = device;
	for (int i = 0; i < 4; i++)
		pool->settings[i] = 1;
	pool->next = pools;
	pools = pool;
}

/* Locked. */
static struct sim_pool *default_pool(int device)
{
	if (!default_pools[device].initialised) {
		pool_init(&default_pools[device], device);
		default_pools[device].props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		default_pools[device].props.location.id = device;
		default_pools[device].props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	}
	return &default_pools[device];
}

static struct sim_pool *current_pool(int device)
{
	return current_pools[device] ? current_pools[device] : default_pool(device);
}

/* What HANDLE stands for, or NULL: it was destroyed, or never was a pool. */
static struct sim_pool *pool_of(CUmemoryPool handle)
{
	struct sim_pool *pool;

	sim_lock();
	for (pool = pools; pool && pool != (struct sim_pool *)handle; pool = pool->next)
		;
	sim_unlock();
	return pool;
}

static struct sim_pool_state state_of(const struct sim_pool *pool)
{
	return (struct sim_pool_state){ .address = (uintptr_t)pool, .threshold = pool->threshold,
					.reserved = pool->reserved, .used = pool->used };
}

static uint32_t stream_number(CUstream stream)
{
	unsigned long long id = 0;

	cuStreamGetId(stream, &id);
	return (uint32_t)id;
}

/* Give back what lies above KEEP and what is in use. */
static void trim(struct sim_pool *pool, uint64_t keep)
{
	uint64_t floor = sim_round_up(pool->used, POOL_STEP);

	if (floor < keep)
		floor = keep;
	if (pool->reserved <= floor)
		return;
	if (pool->device >= 0)
		sim_uncharge(pool->device, pool->reserved - floor);
	pool->reserved = floor;
}

static bool grow(struct sim_pool *pool, size_t bytes)
{
	uint64_t need = sim_round_up(pool->used + bytes, POOL_STEP);

	if (need > pool->reserved) {
		if (pool->device >= 0 && !sim_charge(pool->device, need - pool->reserved)) {
			/* The last step may not fit as a whole. */
			need = sim_round_up(pool->used + bytes, SIM_GRANULE);
			if (need > pool->reserved && !sim_charge(pool->device, need - pool->reserved))
				return false;
		}
		if (need > pool->reserved)
			pool->reserved = need;
		if (pool->reserved > pool->reserved_high)
			pool->reserved_high = pool->reserved;
	}
	pool->used += bytes;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	return true;
}

void sim_pools_synchronised(void)
{
	sim_lock();
	for (struct sim_pool *pool = pools; pool; pool = pool->next)
		trim(pool, pool->threshold);
	sim_unlock();
}

static void unlink_pool(struct sim_pool *pool)
{
	struct sim_pool **link = &pools;

	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	free(pool);
}

void sim_pool_release(const struct sim_block *block)
{
	struct sim_pool *pool = block->owner;

	sim_forget((void *)block->start, block->bytes);
	sim_unmap((void *)block->start, block->bytes);
	pool->used -= block->bytes;
	if (pool->dying && !pool->used) {
		trim(pool, 0);
		unlink_pool(pool);
	}
}

static CUresult pool_alloc(CUdeviceptr *dptr, size_t bytes, struct sim_pool *pool, CUstream stream)
{
	struct sim_block block = { .kind = SIM_POOLED, .requested_bytes = bytes, .owner = pool,
				   .bytes = sim_round_up(bytes, POOL_UNIT) };
	struct sim_pool_state state;

	if (!dptr || !bytes || block.bytes < bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes <= SIM_CAPACITY_MAX && sim_capturing(stream)) {
		/* A node: it has memory when the graph is launched. */
		*dptr = sim_capture_alloc(stream, pool->device < 0 ? 0 : pool->device, bytes);
		return CUDA_SUCCESS;
	}
	sim_lock();
	if (bytes > SIM_CAPACITY_MAX || !grow(pool, block.bytes)) {
		sim_unlock();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block.device = pool->device < 0 ? 0 : pool->device;
	block.start = (uintptr_t)sim_map(block.bytes, 4096, PROT_READ | PROT_WRITE);
	sim_blocks_add(&sim_blocks, &block);
	state = state_of(pool);
	sim_unlock();
	*dptr = block.start;
	if (sim_cupti_on)
		sim_record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, &block, &state,
				  stream_number(stream));
	return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	struct sim_pool *pool;
	int device;
	CUresult ret = sim_context_need(&device);

	if (ret)
		return ret;
	sim_lock();
	pool = current_pool(device);
	sim_unlock();
	return pool_alloc(dptr, bytes, pool, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool handle, CUstream stream)
{
	struct sim_pool *pool = pool_of(handle);
	int device;
	CUresult ret = sim_context_need(&device);

	if (ret || !pool || pool->dying)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	return pool_alloc(dptr, bytes, pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	struct sim_block *found, block;
	struct sim_pool_state state;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!dptr)
		return CUDA_SUCCESS;
	if (sim_capturing(stream))
		return sim_capture_free(stream, dptr);
	sim_lock();
	found = sim_blocks_find(&sim_blocks, dptr);
	if (!found || found->start != dptr) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (found->kind != SIM_POOLED) {
		sim_unlock();
		return cuMemFree_v2(dptr);
	}
	sim_blocks_remove(&sim_blocks, dptr, &block);
	state = state_of(block.owner);
	sim_pool_release(&block);
	sim_unlock();
	state.used -= block.bytes;
	if (sim_cupti_on)
		sim_record_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, &block, &state,
				  stream_number(stream));
	return CUDA_SUCCESS;
}

/* ---- pool objects ---------------------------------------------------------------------------- */

CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *props)
{
	struct sim_pool_state state;
	struct sim_pool *pool;
	int device = -1;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!handle || !props)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		device = props->location.id;
		if (device < 0 || device >= sim_nr_devices())
			return CUDA_ERROR_INVALID_DEVICE;
	}
	pool = sim_zalloc(sizeof(*pool));
	pool->user = true;
	pool->props = *props;
	sim_lock();
	pool_init(pool, device);
	state = state_of(pool);
	sim_unlock();
	*handle = (CUmemoryPool)pool;
	sim_record_pool(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED, device, &state, 0);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	struct sim_pool *pool = pool_of(handle);
	struct sim_pool_state state;
	int device;

	if (!pool || !pool->user || pool->dying)
		return CUDA_ERROR_INVALID_VALUE;
	device = pool->device;
	sim_lock();
	for (int i = 0; i < SIM_MAX_DEVICES; i++)
		if (current_pools[i] == pool)
			current_pools[i] = NULL;
	trim(pool, 0);
	state = state_of(pool);
	if (pool->used)
		pool->dying = true;
	else
		unlink_pool(pool);
	sim_unlock();
	sim_record_pool(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED, device, &state, 0);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	struct sim_pool *pool = pool_of(handle);
	struct sim_pool_state state;

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	trim(pool, keep);
	state = state_of(pool);
	sim_unlock();
	sim_record_pool(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED, pool->device, &state, keep);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct sim_pool *pool = pool_of(handle);
	CUresult ret = CUDA_SUCCESS;

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = pool->settings[attribute];
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = pool->threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->reserved;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = pool->reserved_high;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->used;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = pool->used_high;
		break;
	default:
		ret = CUDA_ERROR_NOT_SUPPORTED;
	}
	sim_unlock();
	return ret;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct sim_pool *pool = pool_of(handle);
	CUresult ret = CUDA_SUCCESS;

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->settings[attribute] = *(int *)value;
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(cuuint64_t *)value;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		pool->reserved_high = pool->reserved;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		pool->used_high = pool->used;
		break;
	default:
		ret = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return ret;
}

/* Every device may use every pool: access changes nothing that can be seen. */
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	return pool_of(handle) && (map || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
	if (!flags || !location || !pool_of(handle))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *handle, CUdevice dev)
{
	if (!handle || dev < 0 || dev >= sim_nr_devices())
		return handle ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*handle = (CUmemoryPool)default_pool(dev);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *handle, CUdevice dev)
{
	if (!handle || dev < 0 || dev >= sim_nr_devices())
		return handle ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*handle = (CUmemoryPool)current_pool(dev);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	struct sim_pool *pool = pool_of(handle);

	if (dev < 0 || dev >= sim_nr_devices())
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pool || pool->device != dev)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	current_pools[dev] = pool;
	sim_unlock();
	return CUDA_SUCCESS;
}

/* The pools of other places than a device: which is current is remembered, and asked for by nothing here. */
static struct sim_pool *other_pools[CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT + 1];

static bool is_device_location(const CUmemLocation *location, CUmemAllocationType type)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool handle)
{
	struct sim_pool *pool = pool_of(handle);

	if (!location || !pool || (unsigned)location->type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_device_location(location, type))
		return cuDeviceSetMemPool(location->id, handle);
	sim_lock();
	other_pools[location->type] = pool;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuMemGetMemPool(CUmemoryPool *handle, CUmemLocation *location, CUmemAllocationType type)
{
	if (!handle || !location || (unsigned)location->type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_device_location(location, type))
		return cuDeviceGetMemPool(handle, location->id);
	*handle = (CUmemoryPool)other_pools[location->type];
	return *handle ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *handle, CUmemLocation *location, CUmemAllocationType type)
{
	if (!handle || !location)
		return CUDA_ERROR_INVALID_VALUE;
	return is_device_location(location, type) ? cuDeviceGetDefaultMemPool(handle, location->id)
						  : CUDA_ERROR_NOT_SUPPORTED;
}
