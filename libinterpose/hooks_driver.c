/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's entry points: the driver ledger.
 *
 * An allocation is recorded after it has worked, a free before the real call (another thread can be given
 * the same address before that call returns), and taken back if the real call fails.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include "interpose.h"
#include "resolve.h"

#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation alike */

/* What a program gets from a wrapper when there is no driver behind it. */
#define NO_DRIVER CUDA_ERROR_SHARED_OBJECT_INIT_FAILED

/* A driver wrapper has been reached: the runtime wrapper around it, if any, has nothing to record. */
static void reached(void)
{
	ip_tls.driver_seen = true;
	if (!atomic_load_explicit(&ip_recorder->driver_hooked, memory_order_relaxed))
		atomic_store_explicit(&ip_recorder->driver_hooked, true, memory_order_relaxed);
}

static uint16_t entry_point(uint16_t function)
{
	return ip_tls.origin ? ip_tls.origin : function;
}

static void record(struct ip_thread *t, uint8_t kind, uint16_t function, unsigned device, unsigned space,
		   uint64_t address, uint64_t bytes, uint64_t aux)
{
	struct tfmt_record ev = {
		.kind = kind,
		.device = (uint8_t)device,
		.flags = (uint16_t)space,
		.function = entry_point(function),
		.address = address,
		.size = bytes,
		.aux = aux,
	};

	t->busy = true;
	ip_record(t, &ev);
	t->busy = false;
}

static void alloc_on_device(uint16_t function, int error, unsigned space, unsigned device, uint64_t address,
			    uint64_t bytes)
{
	int saved = errno;
	bool worked = !error && address;
	struct ip_thread *t;

	if (worked)
		ip_begin();
	t = worked || error == OUT_OF_MEMORY ? ip_event_thread() : NULL;
	if (t && worked && device >= TFMT_NR_DEVICES) {
		ip_lost();
	} else if (t && worked) {
		ip_driver_define_device(t, device);
		record(t, TFMT_DRIVER_ALLOC, function, device, space, address, bytes, 0);
		ip_driver_sample(t, device);
	} else if (t) {
		record(t, TFMT_ALLOC_FAILED, function, device, space, 0, bytes, (uint64_t)error);
	}
	errno = saved;
}

void ip_driver_alloc(uint16_t function, int error, unsigned space, uint64_t address, uint64_t bytes)
{
	int saved = errno;
	unsigned device = ip_driver_device();

	errno = saved;
	alloc_on_device(function, error, space, device == TFMT_DEVICE_NONE ? 0 : device, address, bytes);
}

static bool free_kind(uint8_t kind, uint16_t function, unsigned space, uint64_t address, uint64_t bytes)
{
	int saved = errno;
	struct ip_thread *t = address ? ip_event_thread() : NULL;
	unsigned device;

	if (t) {
		device = ip_driver_device();
		record(t, kind, function, device == TFMT_DEVICE_NONE ? 0 : device, space, address, bytes, 0);
	}
	errno = saved;
	return t;
}

bool ip_driver_free(uint16_t function, unsigned space, uint64_t address)
{
	return free_kind(TFMT_DRIVER_FREE, function, space, address, 0);
}

void ip_driver_free_failed(uint16_t function, int error, unsigned space, uint64_t address)
{
	int saved = errno;
	struct ip_thread *t = ip_event_thread();

	if (t)
		record(t, TFMT_FREE_FAILED, function, 0, space, address, 0, (uint64_t)error);
	errno = saved;
}

#define REAL(fn) ((__typeof__(&fn))ip_real_driver(FN_##fn))

/* An entry point that allocates: OUT is where the address is after success, BYTES what it took. */
#define ALLOC(name, space, params, args, out, bytes)                                                        \
	IP_EXPORT CUresult CUDAAPI name params;                                                             \
	IP_EXPORT CUresult CUDAAPI name params                                                              \
	{                                                                                                   \
		__typeof__(&name) real = REAL(name);                                                        \
		CUresult result = real ? real args : NO_DRIVER;                                             \
                                                                                                            \
		reached();                                                                                  \
		ip_driver_alloc(FN_##name, (int)result, space, result ? 0 : (uint64_t)(out), bytes);        \
		return result;                                                                              \
	}

/* An entry point that frees ADDRESS. */
#define FREE(name, space, params, args, address)                                                            \
	IP_EXPORT CUresult CUDAAPI name params;                                                             \
	IP_EXPORT CUresult CUDAAPI name params                                                              \
	{                                                                                                   \
		__typeof__(&name) real = REAL(name);                                                        \
		bool recorded = (reached(), real) && ip_driver_free(FN_##name, space, (uint64_t)(address));              \
		CUresult result = real ? real args : NO_DRIVER;                                             \
                                                                                                            \
		if (recorded && result)                                                                     \
			ip_driver_free_failed(FN_##name, (int)result, space, (uint64_t)(address));          \
		return result;                                                                              \
	}

ALLOC(cuMemAlloc_v2, TFMT_SPACE_DEVICE, (CUdeviceptr *out, size_t bytes), (out, bytes), *out, bytes)
ALLOC(cuMemAllocPitch_v2, TFMT_SPACE_DEVICE,
      (CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element),
      (out, pitch, width, height, element), *out, result ? width * height : *pitch * height)
ALLOC(cuMemAllocManaged, TFMT_SPACE_MANAGED, (CUdeviceptr *out, size_t bytes, unsigned flags), (out, bytes, flags),
      *out, bytes)
FREE(cuMemFree_v2, TFMT_SPACE_DEVICE, (CUdeviceptr address), (address), address)

ALLOC(cuMemHostAlloc, TFMT_SPACE_PINNED, (void **out, size_t bytes, unsigned flags), (out, bytes, flags),
      (uintptr_t)*out, bytes)
ALLOC(cuMemAllocHost_v2, TFMT_SPACE_PINNED, (void **out, size_t bytes), (out, bytes), (uintptr_t)*out, bytes)
FREE(cuMemFreeHost, TFMT_SPACE_PINNED, (void *address), (address), (uintptr_t)address)
ALLOC(cuMemHostRegister_v2, TFMT_SPACE_REGISTERED, (void *address, size_t bytes, unsigned flags),
      (address, bytes, flags), (uintptr_t)address, bytes)
FREE(cuMemHostUnregister, TFMT_SPACE_REGISTERED, (void *address), (address), (uintptr_t)address)

ALLOC(cuMemAllocAsync, TFMT_SPACE_POOL, (CUdeviceptr *out, size_t bytes, CUstream stream), (out, bytes, stream),
      *out, bytes)
ALLOC(cuMemAllocAsync_ptsz, TFMT_SPACE_POOL, (CUdeviceptr *out, size_t bytes, CUstream stream),
      (out, bytes, stream), *out, bytes)
ALLOC(cuMemAllocFromPoolAsync, TFMT_SPACE_POOL,
      (CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream), (out, bytes, pool, stream), *out, bytes)
ALLOC(cuMemAllocFromPoolAsync_ptsz, TFMT_SPACE_POOL,
      (CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream), (out, bytes, pool, stream), *out, bytes)
FREE(cuMemFreeAsync, TFMT_SPACE_POOL, (CUdeviceptr address, CUstream stream), (address, stream), address)
FREE(cuMemFreeAsync_ptsz, TFMT_SPACE_POOL, (CUdeviceptr address, CUstream stream), (address, stream), address)

ALLOC(cuMemAddressReserve, TFMT_SPACE_RESERVED,
      (CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr at, unsigned long long flags),
      (out, bytes, alignment, at, flags), *out, bytes)
FREE(cuMemAddressFree, TFMT_SPACE_RESERVED, (CUdeviceptr address, size_t bytes), (address, bytes), address)
FREE(cuMemRelease, TFMT_SPACE_HANDLE, (CUmemGenericAllocationHandle handle), (handle), handle)

/* Physical memory lies on the device its properties name, not on the current one; on the host it is pinned. */
IP_EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
				       const CUmemAllocationProp *prop, unsigned long long flags)
{
	__typeof__(&cuMemCreate) real = REAL(cuMemCreate);
	CUresult result = real ? real(out, bytes, prop, flags) : NO_DRIVER;
	bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

	reached();
	alloc_on_device(FN_cuMemCreate, (int)result, on_device ? TFMT_SPACE_HANDLE : TFMT_SPACE_PINNED,
			on_device ? (unsigned)prop->location.id : 0, result ? 0 : *out, bytes);
	return result;
}

static void record_reference(uint8_t kind, uint16_t function, uint64_t address, uint64_t bytes, uint64_t handle)
{
	int saved = errno;
	struct ip_thread *t = (reached(), ip_event_thread());
	unsigned device = t ? ip_driver_device() : 0;

	if (t)
		record(t, kind, function, device == TFMT_DEVICE_NONE ? 0 : device, TFMT_SPACE_HANDLE, address, bytes,
		       handle);
	errno = saved;
}

IP_EXPORT CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
	__typeof__(&cuMemRetainAllocationHandle) real = REAL(cuMemRetainAllocationHandle);
	CUresult result = real ? real(out, address) : NO_DRIVER;

	if (!result)
		record_reference(TFMT_HANDLE_RETAIN, FN_cuMemRetainAllocationHandle, *out, 0, 0);
	return result;
}

IP_EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
				    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	__typeof__(&cuMemMap) real = REAL(cuMemMap);
	CUresult result = real ? real(address, bytes, offset, handle, flags) : NO_DRIVER;

	if (!result)
		record_reference(TFMT_MAP, FN_cuMemMap, address, bytes, handle);
	return result;
}

/* Recorded after the call: the address range stays reserved, so nobody else can be given it meanwhile. */
IP_EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	__typeof__(&cuMemUnmap) real = REAL(cuMemUnmap);
	CUresult result = real ? real(address, bytes) : NO_DRIVER;

	if (!result)
		record_reference(TFMT_UNMAP, FN_cuMemUnmap, address, bytes, 0);
	return result;
}

IP_EXPORT CUresult CUDAAPI cuInit(unsigned flags)
{
	__typeof__(&cuInit) real = REAL(cuInit);
	CUresult result = real ? real(flags) : NO_DRIVER;
	int saved = errno;

	if (!result)
		ip_prepare();
	errno = saved;
	return result;
}

/* ---- lookup by name: the caller gets the wrapper of exactly what the driver would have given it ---- */

#define PER_THREAD_STREAM 2 /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

static void wrap_found(const char *symbol, void **pfn, int version, cuuint64_t flags, CUresult result)
{
	int saved = errno;

	if (!result && pfn && *pfn && symbol)
		*pfn = ip_wrap(symbol, version, (flags & PER_THREAD_STREAM) != 0, *pfn);
	errno = saved;
}

IP_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
					       CUdriverProcAddressQueryResult *status)
{
	__typeof__(&cuGetProcAddress_v2) real = REAL(cuGetProcAddress_v2);
	CUresult result = real ? real(symbol, pfn, version, flags, status) : NO_DRIVER;

	wrap_found(symbol, pfn, version, flags, result);
	return result;
}

/* The four-argument form of CUDA 11.3 to 11.8. */
IP_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags);
IP_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	__typeof__(&cuGetProcAddress) real = REAL(cuGetProcAddress);
	CUresult result = real ? real(symbol, pfn, version, flags) : NO_DRIVER;

	wrap_found(symbol, pfn, version, flags, result);
	return result;
}
