/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's calls for stream-ordered memory and its pools. While the stream is being captured
 * such a call makes a node of a graph: the memory is the graph's then, and no pool's.
 */
#include "hooks_driver.h"
#include "samples.h"

/* Where memory of a pool lies. */
struct place {
	uint8_t space, device;
};

static const struct place usual = { TFMT_SPACE_POOL, IP_CURRENT_DEVICE };

static bool pool_find(CUmemoryPool pool, struct place *out)
{
	const struct ip_pools *p = &ip_recorder->pools;

	for (unsigned i = 0; pool && i < IP_POOLS_MAX; i++) {
		if (atomic_load_explicit(&p->handle[i], memory_order_acquire) != (uintptr_t)pool)
			continue;
		out->space = atomic_load_explicit(&p->space[i], memory_order_relaxed);
		out->device = atomic_load_explicit(&p->device[i], memory_order_relaxed);
		return true;
	}
	return false;
}

static void pool_remember(CUmemoryPool pool, struct place place)
{
	struct ip_pools *p = &ip_recorder->pools;

	for (unsigned i = 0; i < IP_POOLS_MAX; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&p->handle[i], &none, IP_HANDLE_TAKEN))
			continue;
		atomic_store_explicit(&p->space[i], place.space, memory_order_relaxed);
		atomic_store_explicit(&p->device[i], place.device, memory_order_relaxed);
		atomic_store_explicit(&p->handle[i], (uintptr_t)pool, memory_order_release);
		return;
	}
}

static void pool_forget(CUmemoryPool pool)
{
	struct ip_pools *p = &ip_recorder->pools;

	for (unsigned i = 0; i < IP_POOLS_MAX; i++) {
		uintptr_t handle = (uintptr_t)pool;

		atomic_compare_exchange_strong(&p->handle[i], &handle, 0);
	}
}

static unsigned pool_device(CUmemoryPool pool)
{
	struct place place = usual;

	pool_find(pool, &place);
	return place.device;
}

/* What the driver says of memory just taken from a pool. */
static bool ask(CUdeviceptr address, struct place *out)
{
	__typeof__(&cuPointerGetAttributes) get = ASK(cuPointerGetAttributes);
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_IS_MANAGED,
					     CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	unsigned managed = 0, type = 0;
	int device = -1;
	void *values[] = { &managed, &type, &device };

	if (!get || ip_captures_forbid_questions() || get(3, attributes, values, address))
		return false;
	if (managed || type == CU_MEMORYTYPE_HOST)
		*out = (struct place){ managed ? TFMT_SPACE_MANAGED : TFMT_SPACE_POOL_HOST,
				       IP_CURRENT_DEVICE };
	else if (device >= 0 && device < (int)TFMT_NR_DEVICES)
		*out = (struct place){ TFMT_SPACE_POOL, (uint8_t)device };
	else
		return false;
	return true;
}

/* A stream may belong to another device than the current one, where there is one. */
static bool may_be_elsewhere(CUstream stream)
{
	static _Atomic int nr_devices;
	__typeof__(&cuDeviceGetCount) get;
	int nr = atomic_load_explicit(&nr_devices, memory_order_relaxed);

	if (stream <= CU_STREAM_PER_THREAD)
		return false;
	if (!nr) {
		get = ASK(cuDeviceGetCount);
		if (!get || get(&nr) || !nr)
			nr = 1;
		atomic_store_explicit(&nr_devices, nr, memory_order_relaxed);
	}
	return nr > 1;
}

/* Where memory lies that was asked of a pool, NULL = the stream's; address 0 = there was none to be had. */
static struct place place_of(CUdeviceptr address, CUmemoryPool pool, CUstream stream)
{
	struct place place = usual;

	if (!pool_find(pool, &place) && address && (pool || may_be_elsewhere(stream)) &&
	    ask(address, &place) && pool)
		pool_remember(pool, place);
	return place;
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void taken(uint16_t function, CUresult result, const CUdeviceptr *out, uint64_t bytes,
		  CUmemoryPool pool, CUstream stream)
{
	int saved = errno;
	bool captured = !result && ip_is_captured(stream);
	CUdeviceptr address = result ? 0 : *out;
	struct place place = place_of(address, pool, stream);
	unsigned device = place.device == IP_CURRENT_DEVICE ? ip_driver_device() : place.device;
	struct tfmt_record ev = { .kind = TFMT_DRIVER_ALLOC,
				  .flags = captured ? TFMT_SPACE_GRAPH | TFMT_FLAG_CAPTURING : place.space,
				  .function = function,
				  .device = (uint8_t)device,
				  .address = address,
				  .size = bytes,
				  .stream = ip_stream_number(stream) };
	struct ip_thread *t = ip_driver_took(ev, (int)result);

	if (captured)
		ip_graph_captured_alloc(device);
	else if (t && place.space == TFMT_SPACE_POOL)
		ip_sample_pool(t, device, pool, bytes);
	errno = saved;
}

/* What NULL stands for in functions of either variant. */
#define LEGACY(stream) (stream)
#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

#define ALLOC_ASYNC(name, variant, params, args, pool)                                                       \
	IP_EXPORT CUresult CUDAAPI name params                                                               \
	{                                                                                                    \
		struct ip_taken outer = ip_enter();                                                          \
		__typeof__(&name) real = REAL(name);                                                         \
		CUresult result = real ? real args : NO_DRIVER;                                              \
                                                                                                             \
		ip_reached();                                                                                \
		taken(FN_##name, result, out, bytes, pool, variant(stream));                                 \
		ip_leave(outer);                                                                             \
		return result;                                                                               \
	}

ALLOC_ASYNC(cuMemAllocAsync, LEGACY, (CUdeviceptr * out, size_t bytes, CUstream stream), (out, bytes, stream),
	    NULL)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, PER_THREAD, (CUdeviceptr * out, size_t bytes, CUstream stream),
	    (out, bytes, stream), NULL)
ALLOC_ASYNC(cuMemAllocFromPoolAsync, LEGACY,
	    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream), (out, bytes, pool, stream),
	    pool)
ALLOC_ASYNC(cuMemAllocFromPoolAsync_ptsz, PER_THREAD,
	    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream), (out, bytes, pool, stream),
	    pool)

/* In a capture: a free node, which ends memory of an allocation node. */
static bool given_back(uint16_t function, uint64_t address, CUstream stream)
{
	int saved = errno;
	bool captured = ip_is_captured(stream);
	uint16_t flags = captured ? TFMT_SPACE_GRAPH | TFMT_FLAG_CAPTURING : TFMT_SPACE_POOL;
	bool recorded = ip_is_to_free(flags, address) &&
			ip_driver_event((struct tfmt_record){ .kind = TFMT_DRIVER_FREE,
							      .flags = flags,
							      .function = function,
							      .device = IP_CURRENT_DEVICE,
							      .address = address,
							      .stream = ip_stream_number(stream) });

	errno = saved;
	return recorded;
}

#define FREE_ASYNC(name, variant)                                                                            \
	IP_EXPORT CUresult CUDAAPI name(CUdeviceptr address, CUstream stream)                                \
	{                                                                                                    \
		bool recorded = (ip_free_reached(), given_back(FN_##name, address, variant(stream)));        \
		__typeof__(&name) real = REAL(name);                                                         \
		CUresult result;                                                                             \
                                                                                                             \
		ip_freeing(TFMT_SPACE_POOL, address);                                                        \
		result = real ? real(address, stream) : NO_DRIVER;                                           \
		ip_freeing(TFMT_SPACE_POOL, 0);                                                              \
		if (recorded && result)                                                                      \
			ip_driver_free_failed(FN_##name, (int)result, TFMT_SPACE_POOL, address);             \
		return result;                                                                               \
	}

FREE_ASYNC(cuMemFreeAsync, LEGACY)
FREE_ASYNC(cuMemFreeAsync_ptsz, PER_THREAD)

/* ---- pools ------------------------------------------------------------------------------------- */

static struct ip_thread *pool_event(uint8_t kind, uint16_t function, unsigned device, CUmemoryPool pool,
				    uint64_t size, uint64_t aux)
{
	struct tfmt_record ev = { .kind = kind,
				  .flags = TFMT_OBJECT_POOL,
				  .function = function,
				  .device = (uint8_t)device,
				  .address = (uintptr_t)pool,
				  .size = size,
				  .aux = aux };

	return kind == TFMT_OBJECT_NEW ? ip_driver_born(ev) : ip_driver_event(ev);
}

/* In aux of a pool's OBJECT_NEW, beside where its memory lies. */
#define POOL_IS_MANAGED 0x100
#define POOL_IS_IMPORTED 0x200

static void pool_created(CUmemoryPool pool, const CUmemPoolProps *props)
{
	bool managed = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
	bool on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	struct place place = { managed     ? TFMT_SPACE_MANAGED
			       : on_device ? TFMT_SPACE_POOL
					   : TFMT_SPACE_POOL_HOST,
			       on_device ? (uint8_t)props->location.id : IP_CURRENT_DEVICE };

	pool_remember(pool, place);
	pool_event(TFMT_OBJECT_NEW, FN_cuMemPoolCreate, place.device, pool, props->maxSize,
		   (uint64_t)props->location.type | (managed ? POOL_IS_MANAGED : 0));
}

WRAP(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps *props), (out, props),
     pool_created(*out, props))

/* Forgotten before: another thread can be given the same handle before the call returns. */
IP_EXPORT CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
	struct place place = usual;
	bool known = (ip_reached(), pool_find(pool, &place));
	__typeof__(&cuMemPoolDestroy) real;
	CUresult result;

	pool_forget(pool);
	real = REAL(cuMemPoolDestroy);
	result = real ? real(pool) : NO_DRIVER;
	if (!result)
		ip_driver_gone(FN_cuMemPoolDestroy, TFMT_OBJECT_POOL, (uintptr_t)pool);
	else if (known)
		pool_remember(pool, place);
	return result;
}

/* What a trim gave back shows in the sample after it. */
static void pool_trimmed(CUmemoryPool pool, uint64_t keep)
{
	int saved = errno;
	unsigned device = pool_device(pool);
	struct ip_thread *t = pool_event(TFMT_OBJECT_SET, FN_cuMemPoolTrimTo, device, pool, keep, 0);

	if (t)
		ip_sample_pool(t, device == IP_CURRENT_DEVICE ? ip_driver_device() : device, pool, 0);
	errno = saved;
}

static uint64_t attribute_value(CUmemPool_attribute attribute, const void *value)
{
	return attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? *(const unsigned *)value
							     : *(const cuuint64_t *)value;
}

WRAP(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep), pool_trimmed(pool, keep))
WRAP(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
     (pool, attribute, value),
     pool_event(TFMT_OBJECT_SET, FN_cuMemPoolSetAttribute, pool_device(pool), pool,
		attribute_value(attribute, value), attribute))
WRAP(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), (device, pool),
     pool_event(TFMT_OBJECT_SET, FN_cuDeviceSetMemPool, (unsigned)device, pool, 0, 0))
WRAP(cuMemSetMemPool, (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool),
     (location, type, pool),
     pool_event(TFMT_OBJECT_SET, FN_cuMemSetMemPool,
		location->type == CU_MEM_LOCATION_TYPE_DEVICE ? (unsigned)location->id : IP_CURRENT_DEVICE,
		pool, 0, (uint64_t)type))

/* ---- pools of several processes ------------------------------------------------------------------ */

WRAP(cuMemPoolExportToShareableHandle,
     (void *out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
     (out, pool, type, flags), ip_driver_exported(FN_cuMemPoolExportToShareableHandle, (uintptr_t)pool, 0))
WRAP(cuMemPoolImportFromShareableHandle,
     (CUmemoryPool *out, void *handle, CUmemAllocationHandleType type, unsigned long long flags),
     (out, handle, type, flags),
     pool_event(TFMT_OBJECT_NEW, FN_cuMemPoolImportFromShareableHandle, IP_CURRENT_DEVICE, *out, 0,
		CU_MEM_LOCATION_TYPE_DEVICE | POOL_IS_IMPORTED))
WRAP(cuMemPoolExportPointer, (CUmemPoolPtrExportData *out, CUdeviceptr address), (out, address),
     ip_driver_exported(FN_cuMemPoolExportPointer, address, 0))
WRAP(cuMemPoolImportPointer, (CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data),
     (out, pool, data),
     ip_driver_alloc(FN_cuMemPoolImportPointer, 0, TFMT_SPACE_IPC, *out, ip_range_bytes(*out)))
