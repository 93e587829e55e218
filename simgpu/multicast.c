/* SPDX-License-Identifier: MIT */
/*
 * Multicast objects: memory of several devices at one address. An object takes no memory of a device;
 * what is bound to it is taken already. A store to its address does not reach what is bound, because
 * only kernels make such stores. An object that another process has exported tells its bytes only, so what an
 * importer does with it is not checked against its size and devices.
 */
#include <stdlib.h>

#include "simgpu/internal.h"

struct binding {
	struct binding *next;
	int device;
	size_t at, bytes;
	CUmemGenericAllocationHandle memory; /* held; 0: bound by address */
};

struct multicast {
	struct multicast *next;
	CUmemGenericAllocationHandle handle;
	unsigned nr_devices; /* that were announced; 0: not known */
	uint64_t devices;    /* that were added: a bit each */
	struct binding *bindings;
};

static struct multicast *multicasts; /* under sim_lock() */

static unsigned count(uint64_t bits)
{
	return (unsigned)__builtin_popcountll(bits);
}

/* Locked. */
static struct multicast *multicast_of(CUmemGenericAllocationHandle handle)
{
	struct multicast *m = multicasts;

	while (m && m->handle != handle)
		m = m->next;
	return m;
}

void sim_multicast_new(CUmemGenericAllocationHandle handle, unsigned nr_devices)
{
	struct multicast *m = sim_zalloc(sizeof(*m));

	m->handle = handle;
	m->nr_devices = nr_devices;
	m->next = multicasts;
	multicasts = m;
}

static void unbind(struct binding **link)
{
	struct binding *b = *link;

	*link = b->next;
	if (b->memory)
		sim_physical_put(b->memory);
	free(b);
}

void sim_multicast_end(CUmemGenericAllocationHandle handle)
{
	struct multicast **link = &multicasts, *m;

	while (*link && (*link)->handle != handle)
		link = &(*link)->next;
	m = *link;
	if (!m)
		return;
	*link = m->next;
	while (m->bindings)
		unbind(&m->bindings);
	free(m);
}

CUresult cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *prop,
				   CUmulticastGranularity_flags option)
{
	if (!bytes || !prop || (unsigned)option > CU_MULTICAST_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = SIM_GRANULE;
	return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!handle || !prop || !prop->numDevices || !prop->size || prop->size % SIM_GRANULE || prop->flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*handle = sim_physical_new_multicast(prop->size);
	sim_multicast_new(*handle, prop->numDevices);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
	CUresult ret = CUDA_SUCCESS;
	struct multicast *m;

	if (device < 0 || device >= sim_nr_devices())
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	m = multicast_of(handle);
	if (!m || m->devices >> device & 1 || (m->nr_devices && count(m->devices) == m->nr_devices))
		ret = CUDA_ERROR_INVALID_VALUE;
	else
		m->devices |= 1ull << device;
	sim_unlock();
	return ret;
}

/* Whether [AT, AT + BYTES) of M is whole granules inside it, and free on DEVICE, which was added. Locked. */
static bool is_free(const struct multicast *m, int device, size_t at, size_t bytes)
{
	size_t room = sim_physical_bytes(m->handle);

	if (!bytes || bytes % SIM_GRANULE || at % SIM_GRANULE || at > room || bytes > room - at ||
	    !(m->devices >> device & 1))
		return false;
	for (const struct binding *b = m->bindings; b; b = b->next)
		if (b->device == device && at < b->at + b->bytes && b->at < at + bytes)
			return false;
	return true;
}

/* MEMORY has one reference more than before, or is 0. Locked. */
static CUresult bind_memory(struct multicast *m, int device, size_t at, size_t bytes,
			    CUmemGenericAllocationHandle memory)
{
	struct binding *b;

	if (!is_free(m, device, at, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	b = sim_alloc(sizeof(*b));
	*b = (struct binding){ m->bindings, device, at, bytes, memory };
	m->bindings = b;
	return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t at,
			    CUmemGenericAllocationHandle memory, size_t memory_at, size_t bytes,
			    unsigned long long flags)
{
	CUmemAllocationProp prop;
	CUresult ret = CUDA_ERROR_INVALID_VALUE;
	struct multicast *m;
	size_t room;

	if (flags || memory_at % SIM_GRANULE || cuMemGetAllocationPropertiesFromHandle(&prop, memory) ||
	    prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	m = multicast_of(handle);
	room = sim_physical_bytes(memory);
	if (m && memory_at <= room && bytes <= room - memory_at && sim_physical_get(memory)) {
		ret = bind_memory(m, prop.location.id, at, bytes, memory);
		if (ret)
			sim_physical_put(memory);
	}
	sim_unlock();
	return ret;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t at, CUdeviceptr p, size_t bytes,
			     unsigned long long flags)
{
	CUresult ret = CUDA_ERROR_INVALID_VALUE;
	struct sim_block *block;
	struct multicast *m;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	m = multicast_of(handle);
	block = sim_blocks_find(&sim_blocks, p);
	if (m && block && block->kind == SIM_MAPPED && bytes <= block->start + block->bytes - p)
		ret = bind_memory(m, block->device, at, bytes, 0);
	sim_unlock();
	return ret;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t at, size_t bytes)
{
	CUresult ret = CUDA_ERROR_INVALID_VALUE;
	struct multicast *m;

	sim_lock();
	m = multicast_of(handle);
	for (struct binding **link = m ? &m->bindings : NULL; link && *link; link = &(*link)->next) {
		if ((*link)->device != device || (*link)->at != at || (*link)->bytes != bytes)
			continue;
		unbind(link);
		ret = CUDA_SUCCESS;
		break;
	}
	sim_unlock();
	return ret;
}
