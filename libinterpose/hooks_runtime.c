/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the runtime's entry points. The memory is counted at the driver, which the runtime calls; a
 * wrapper here says under which name the program asked. Where the driver's wrappers cannot be reached
 * (a runtime loaded with RTLD_DEEPBIND), the call is recorded here instead.
 */
#include <cuda_runtime_api.h>

#include "interpose.h"
#include "resolve.h"

/* What a program gets from a wrapper when no runtime is behind it. */
#define NO_RUNTIME cudaErrorInitializationError

struct runtime_call {
	bool outermost;
};

static inline struct runtime_call runtime_enter(enum ip_fn fn)
{
	struct runtime_call c = { !ip_tls.origin };

	if (c.outermost) {
		ip_tls.origin = (uint16_t)fn;
		ip_tls.driver_seen = false;
	}
	return c;
}

static inline void runtime_leave(struct runtime_call c)
{
	if (c.outermost)
		ip_tls.origin = 0;
}

/* Has no driver wrapper ever been reached? Then the runtime's own calls are all there is to record. */
static bool driver_out_of_reach(void)
{
	return !atomic_load_explicit(&ip_recorder->driver_hooked, memory_order_relaxed);
}

static void record_alloc(struct runtime_call c, enum ip_fn fn, int error, unsigned space, uint64_t address,
			 uint64_t bytes)
{
	if (c.outermost && !ip_tls.driver_seen && driver_out_of_reach())
		ip_driver_alloc((uint16_t)fn, error, space, address, bytes);
}

static bool record_free(struct runtime_call c, enum ip_fn fn, unsigned space, uint64_t address)
{
	return c.outermost && driver_out_of_reach() && ip_driver_free((uint16_t)fn, space, address);
}

#define ALLOC(name, space, params, args, out, bytes)                                                        \
	IP_EXPORT cudaError_t CUDARTAPI name params;                                                        \
	IP_EXPORT cudaError_t CUDARTAPI name params                                                         \
	{                                                                                                   \
		__typeof__(&name) real =                                                                    \
			(__typeof__(&name))ip_real_runtime(FN_##name, __builtin_return_address(0));         \
		struct runtime_call c = runtime_enter(FN_##name);                                           \
		cudaError_t result = real ? real args : NO_RUNTIME;                                         \
                                                                                                            \
		record_alloc(c, FN_##name, (int)result, space, result ? 0 : (uint64_t)(uintptr_t)(out),     \
			     bytes);                                                                        \
		runtime_leave(c);                                                                           \
		return result;                                                                              \
	}

#define FREE(name, space, params, args, address)                                                            \
	IP_EXPORT cudaError_t CUDARTAPI name params;                                                        \
	IP_EXPORT cudaError_t CUDARTAPI name params                                                         \
	{                                                                                                   \
		__typeof__(&name) real =                                                                    \
			(__typeof__(&name))ip_real_runtime(FN_##name, __builtin_return_address(0));         \
		struct runtime_call c = runtime_enter(FN_##name);                                           \
		bool recorded = real && record_free(c, FN_##name, space, (uint64_t)(uintptr_t)(address));   \
		cudaError_t result = real ? real args : NO_RUNTIME;                                         \
                                                                                                            \
		if (recorded && result)                                                                     \
			ip_driver_free_failed(FN_##name, (int)result, space, (uint64_t)(uintptr_t)(address)); \
		runtime_leave(c);                                                                           \
		return result;                                                                              \
	}

ALLOC(cudaMalloc, TFMT_SPACE_DEVICE, (void **out, size_t bytes), (out, bytes), *out, bytes)
ALLOC(cudaMallocPitch, TFMT_SPACE_DEVICE, (void **out, size_t *pitch, size_t width, size_t height),
      (out, pitch, width, height), *out, result ? width * height : *pitch * height)
ALLOC(cudaMallocManaged, TFMT_SPACE_MANAGED, (void **out, size_t bytes, unsigned flags), (out, bytes, flags), *out,
      bytes)
FREE(cudaFree, TFMT_SPACE_DEVICE, (void *address), (address), address)

ALLOC(cudaMallocHost, TFMT_SPACE_PINNED, (void **out, size_t bytes), (out, bytes), *out, bytes)
ALLOC(cudaHostAlloc, TFMT_SPACE_PINNED, (void **out, size_t bytes, unsigned flags), (out, bytes, flags), *out, bytes)
FREE(cudaFreeHost, TFMT_SPACE_PINNED, (void *address), (address), address)
ALLOC(cudaHostRegister, TFMT_SPACE_REGISTERED, (void *address, size_t bytes, unsigned flags),
      (address, bytes, flags), address, bytes)
FREE(cudaHostUnregister, TFMT_SPACE_REGISTERED, (void *address), (address), address)

ALLOC(cudaMallocAsync, TFMT_SPACE_POOL, (void **out, size_t bytes, cudaStream_t stream), (out, bytes, stream), *out,
      bytes)
ALLOC(cudaMallocAsync_ptsz, TFMT_SPACE_POOL, (void **out, size_t bytes, cudaStream_t stream), (out, bytes, stream),
      *out, bytes)
ALLOC(cudaMallocFromPoolAsync, TFMT_SPACE_POOL, (void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
      (out, bytes, pool, stream), *out, bytes)
ALLOC(cudaMallocFromPoolAsync_ptsz, TFMT_SPACE_POOL,
      (void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream), (out, bytes, pool, stream), *out, bytes)
FREE(cudaFreeAsync, TFMT_SPACE_POOL, (void *address, cudaStream_t stream), (address, stream), address)
FREE(cudaFreeAsync_ptsz, TFMT_SPACE_POOL, (void *address, cudaStream_t stream), (address, stream), address)
