/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the runtime's entry points. The memory is counted at the driver, which the runtime calls; a
 * wrapper here says under which name the program asked. Where the driver's wrappers cannot be reached
 * (a runtime loaded with RTLD_DEEPBIND), what allocates and frees is recorded here instead.
 */
#include <cuda_runtime_api.h>

#include "hooks_array.h"
#include "interpose.h"
#include "objects.h"
#include "opencall.h"
#include "resolve.h"

/* What a program gets from a wrapper when there is no runtime to call. */
#define NO_RUNTIME cudaErrorInitializationError

struct runtime_call {
	uint64_t mark;
	bool outermost;
};

/*
 * A call that a jump has left may be noted still. Not a hot path: few calls of the runtime are within another. Before
 * anything is recorded nobody can walk: then the outer call finds that the inner one has told of the memory.
 */
static inline __attribute__((always_inline)) bool is_within_another(void)
{
	const struct unwind_registers at = UNWIND_CALLER();

	return ip_state() == IP_RECORDING && open_frame_stands(NULL, &ip_tls.runtime_call.at, &at);
}

/* In the hook's own frame, as runtime_leave(). */
static inline __attribute__((always_inline)) void runtime_enter(struct runtime_call *c, enum ip_fn fn)
{
	c->mark = 0;
	c->outermost = !ip_tls.origin || !is_within_another();
	if (c->outermost) {
		open_entry_note(&ip_tls.runtime_call, &c->mark);
		ip_tls.origin = (uint16_t)fn;
		ip_tls.driver_seen = false;
		ip_tls.entered = ip_tls.taken;
	}
}

static inline void runtime_leave(struct runtime_call *c)
{
	if (c->outermost && open_entry_ends(&ip_tls.runtime_call, &c->mark))
		ip_tls.origin = 0;
}

/* Has no driver wrapper ever been reached? Then the runtime's own calls are all there is to record. */
static bool driver_out_of_reach(void)
{
	return !atomic_load_explicit(&ip_recorder->driver_hooked, memory_order_relaxed);
}

static bool is_to_record(const struct runtime_call *c)
{
	return c->outermost && !ip_tls.driver_seen && driver_out_of_reach();
}

static bool record_free(const struct runtime_call *c, enum ip_fn fn, unsigned space, uint64_t address)
{
	return c->outermost && driver_out_of_reach() && ip_driver_free((uint16_t)fn, space, address);
}

#define REAL_RUNTIME(name) ((__typeof__(&name))ip_real_runtime(FN_##name, __builtin_return_address(0)))

/* An entry point after whose call AFTER, a statement, has something to record if the driver did not. */
#define RECORD(name, params, args, after)                                                                    \
	IP_EXPORT cudaError_t CUDARTAPI name params;                                                         \
	IP_EXPORT cudaError_t CUDARTAPI name params                                                          \
	{                                                                                                    \
		__typeof__(&name) real = REAL_RUNTIME(name);                                                 \
		struct runtime_call c;                                                                       \
		cudaError_t result;                                                                          \
                                                                                                             \
		runtime_enter(&c, FN_##name);                                                                \
		result = real ? real args : NO_RUNTIME;                                                      \
		if (is_to_record(&c))                                                                        \
			after;                                                                               \
		runtime_leave(&c);                                                                           \
		return result;                                                                               \
	}

/* One that allocates: OUT is where the address is after success, BYTES what it took. */
#define ALLOC(name, space, params, args, out, bytes)                                                         \
	RECORD(name, params, args,                                                                           \
	       ip_driver_alloc(FN_##name, (int)result, space, result ? 0 : (uint64_t)(uintptr_t)(out),       \
			       bytes))

#define FREE(name, space, params, args, address)                                                             \
	IP_EXPORT cudaError_t CUDARTAPI name params;                                                         \
	IP_EXPORT cudaError_t CUDARTAPI name params                                                          \
	{                                                                                                    \
		__typeof__(&name) real = REAL_RUNTIME(name);                                                 \
		uint64_t freed = (uint64_t)(uintptr_t)(address);                                             \
		struct runtime_call c;                                                                       \
		cudaError_t result;                                                                          \
		bool recorded;                                                                               \
                                                                                                             \
		runtime_enter(&c, FN_##name);                                                                \
		recorded = real && record_free(&c, FN_##name, space, freed);                                 \
		result = real ? real args : NO_RUNTIME;                                                      \
		if (recorded && result)                                                                      \
			ip_driver_free_failed(FN_##name, (int)result, space, freed);                         \
		runtime_leave(&c);                                                                           \
		return result;                                                                               \
	}

/* One that has a name to give, and nothing to record without the driver. */
#define NAME(name, params, args) RECORD(name, params, args, (void)0)

ALLOC(cudaMalloc, TFMT_SPACE_DEVICE, (void **out, size_t bytes), (out, bytes), *out, bytes)
ALLOC(cudaMallocPitch, TFMT_SPACE_DEVICE, (void **out, size_t *pitch, size_t width, size_t height),
      (out, pitch, width, height), *out, result ? width *height : *pitch *height)
ALLOC(cudaMalloc3D, TFMT_SPACE_DEVICE, (struct cudaPitchedPtr *out, struct cudaExtent extent), (out, extent),
      out->ptr, (result ? extent.width : out->pitch) * extent.height * extent.depth)
ALLOC(cudaMallocManaged, TFMT_SPACE_MANAGED, (void **out, size_t bytes, unsigned flags), (out, bytes, flags),
      *out, bytes)
FREE(cudaFree, TFMT_SPACE_DEVICE, (void *address), (address), address)

ALLOC(cudaMallocHost, TFMT_SPACE_PINNED, (void **out, size_t bytes), (out, bytes), *out, bytes)
ALLOC(cudaHostAlloc, TFMT_SPACE_PINNED, (void **out, size_t bytes, unsigned flags), (out, bytes, flags), *out,
      bytes)
FREE(cudaFreeHost, TFMT_SPACE_PINNED, (void *address), (address), address)
ALLOC(cudaHostRegister, TFMT_SPACE_REGISTERED, (void *address, size_t bytes, unsigned flags),
      (address, bytes, flags), address, bytes)
FREE(cudaHostUnregister, TFMT_SPACE_REGISTERED, (void *address), (address), address)

/* ---- arrays ------------------------------------------------------------------------------------ */

static void array_took(enum ip_fn fn, cudaError_t result, const void *array,
		       const struct cudaChannelFormatDesc *d, struct cudaExtent extent, unsigned levels,
		       unsigned flags)
{
	const struct array_shape shape = {
		.width = extent.width,
		.height = extent.height,
		.depth = extent.depth,
		.levels = levels,
		.element_bytes = d ? (uint64_t)(d->x + d->y + d->z + d->w) / 8 : 0,
		.layered = flags & (cudaArrayLayered | cudaArrayCubemap),
		.mapped_later = flags & (cudaArraySparse | cudaArrayDeferredMapping),
	};

	ip_array_took((uint16_t)fn, (int)result, (uintptr_t)array, &shape, 0);
}

#define ARRAY(name, params, args, extent, levels)                                                            \
	RECORD(name, params, args,                                                                           \
	       array_took(FN_##name, result, result ? NULL : *out, d, extent, levels, flags))

ARRAY(cudaMallocArray,
      (cudaArray_t *out, const struct cudaChannelFormatDesc *d, size_t width, size_t height, unsigned flags),
      (out, d, width, height, flags), ((struct cudaExtent){ width, height, 0 }), 1)
ARRAY(cudaMalloc3DArray,
      (cudaArray_t *out, const struct cudaChannelFormatDesc *d, struct cudaExtent extent, unsigned flags),
      (out, d, extent, flags), extent, 1)
ARRAY(cudaMallocMipmappedArray,
      (cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *d, struct cudaExtent extent,
       unsigned levels, unsigned flags),
      (out, d, extent, levels, flags), extent, levels)
FREE(cudaFreeArray, TFMT_SPACE_ARRAY, (cudaArray_t array), (array), array)
FREE(cudaFreeMipmappedArray, TFMT_SPACE_ARRAY, (cudaMipmappedArray_t array), (array), array)

/* ---- stream-ordered memory and its pools --------------------------------------------------------- */

#define ASYNC(suffix)                                                                                        \
	ALLOC(cudaMallocAsync##suffix, TFMT_SPACE_POOL, (void **out, size_t bytes, cudaStream_t stream),     \
	      (out, bytes, stream), *out, bytes)                                                             \
	ALLOC(cudaMallocFromPoolAsync##suffix, TFMT_SPACE_POOL,                                              \
	      (void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),                           \
	      (out, bytes, pool, stream), *out, bytes)                                                       \
	FREE(cudaFreeAsync##suffix, TFMT_SPACE_POOL, (void *address, cudaStream_t stream),                   \
	     (address, stream), address)

ASYNC()
ASYNC(_ptsz)

NAME(cudaMemPoolCreate, (cudaMemPool_t *out, const struct cudaMemPoolProps *props), (out, props))
NAME(cudaMemPoolDestroy, (cudaMemPool_t pool), (pool))
NAME(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), (pool, keep))
NAME(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
     (pool, attribute, value))
NAME(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), (device, pool))
NAME(cudaMemSetMemPool,
     (struct cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t pool),
     (location, type, pool))
NAME(cudaMemPoolExportToShareableHandle,
     (void *out, cudaMemPool_t pool, enum cudaMemAllocationHandleType type, unsigned flags),
     (out, pool, type, flags))
NAME(cudaMemPoolImportFromShareableHandle,
     (cudaMemPool_t *out, void *handle, enum cudaMemAllocationHandleType type, unsigned flags),
     (out, handle, type, flags))
NAME(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData *out, void *address), (out, address))
NAME(cudaMemPoolImportPointer, (void **out, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data),
     (out, pool, data))

/* ---- memory of other processes and interfaces ---------------------------------------------------- */

NAME(cudaIpcGetMemHandle, (cudaIpcMemHandle_t *out, void *address), (out, address))
ALLOC(cudaIpcOpenMemHandle, TFMT_SPACE_IPC, (void **out, cudaIpcMemHandle_t handle, unsigned flags),
      (out, handle, flags), *out, 0)
FREE(cudaIpcCloseMemHandle, TFMT_SPACE_IPC, (void *address), (address), address)
NAME(cudaImportExternalMemory, (cudaExternalMemory_t *out, const struct cudaExternalMemoryHandleDesc *d),
     (out, d))
NAME(cudaDestroyExternalMemory, (cudaExternalMemory_t memory), (memory))
ALLOC(cudaExternalMemoryGetMappedBuffer, TFMT_SPACE_IPC,
      (void **out, cudaExternalMemory_t memory, const struct cudaExternalMemoryBufferDesc *d),
      (out, memory, d), *out, d ? d->size : 0)
ALLOC(cudaExternalMemoryGetMappedMipmappedArray, TFMT_SPACE_ARRAY,
      (cudaMipmappedArray_t *out, cudaExternalMemory_t memory,
       const struct cudaExternalMemoryMipmappedArrayDesc *d),
      (out, memory, d), *out, 0)

/* ---- graphs ------------------------------------------------------------------------------------- */

NAME(cudaGraphAddMemAllocNode,
     (cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after, size_t nr,
      struct cudaMemAllocNodeParams *p),
     (out, graph, after, nr, p))
NAME(cudaGraphAddMemFreeNode,
     (cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after, size_t nr, void *address),
     (out, graph, after, nr, address))

/*
 * Functions whose parameters changed from one CUDA to the next, under one name: as many words as the longer
 * form has are passed on. What the shorter one's caller left in the others' registers nobody reads.
 */
#define WORDS5 (uintptr_t a, uintptr_t b, uintptr_t c_, uintptr_t d, uintptr_t e)
#define WORDS6 (uintptr_t a, uintptr_t b, uintptr_t c_, uintptr_t d, uintptr_t e, uintptr_t f)
#define NAME_WORDS(name, words, args)                                                                        \
	IP_EXPORT cudaError_t ip_##name words __asm__(#name);                                                \
	IP_EXPORT cudaError_t ip_##name words                                                                \
	{                                                                                                    \
		__typeof__(&ip_##name) real =                                                                \
			(__typeof__(&ip_##name))ip_real_runtime(FN_##name, __builtin_return_address(0));     \
		struct runtime_call c;                                                                       \
		cudaError_t result;                                                                          \
                                                                                                             \
		runtime_enter(&c, FN_##name);                                                                \
		result = real ? real args : NO_RUNTIME;                                                      \
		runtime_leave(&c);                                                                           \
		return result;                                                                               \
	}

NAME_WORDS(cudaGraphAddNode, WORDS6, (a, b, c_, d, e, f))
NAME_WORDS(cudaGraphAddNode_v2, WORDS6, (a, b, c_, d, e, f))
NAME_WORDS(cudaGraphInstantiate, WORDS5, (a, b, c_, d, e))

NAME(cudaGraphInstantiateWithFlags, (cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags),
     (out, graph, flags))
NAME(cudaGraphInstantiateWithParams,
     (cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphInstantiateParams *params), (out, graph, params))
NAME(cudaGraphInstantiateWithParams_ptsz,
     (cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphInstantiateParams *params), (out, graph, params))
NAME(cudaGraphExecDestroy, (cudaGraphExec_t exec), (exec))
NAME(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
NAME(cudaGraphLaunch_ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
NAME(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
NAME(cudaGraphUpload_ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
NAME(cudaDeviceGraphMemTrim, (int device), (device))

/* ---- contexts and device code -------------------------------------------------------------------- */

NAME(cudaInitDevice, (int device, unsigned device_flags, unsigned flags), (device, device_flags, flags))
NAME(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), (limit, value))

/* The device that the runtime which `real` belongs to has for this thread: the one that it resets without a context. */
static unsigned runtime_device(const void *real, const void *caller)
{
	const char *name = "cudaGetDevice";
	void *found[] = { ip_symbol_next(name), ip_symbol_needed(caller, IP_RUNTIME_OBJECT, name),
			  ip_symbol_of(IP_RUNTIME_OBJECT, name) };
	int device;

	for (unsigned i = 0; i < sizeof(found) / sizeof(*found); i++)
		if (found[i] && ip_same_object(found[i], real))
			return ((__typeof__(&cudaGetDevice))found[i])(&device) ? TFMT_DEVICE_NONE
									       : (unsigned)device;
	return TFMT_DEVICE_NONE;
}

/* The runtime may take a way to the driver that nobody sees. */
IP_EXPORT cudaError_t CUDARTAPI cudaDeviceReset(void)
{
	__typeof__(&cudaDeviceReset) real = REAL_RUNTIME(cudaDeviceReset);
	struct runtime_call c;
	int saved = errno;
	unsigned device;
	cudaError_t result;

	runtime_enter(&c, FN_cudaDeviceReset);
	device = ip_driver_device();
	ip_tls.reset_seen = false;
	errno = saved;
	result = real ? real() : NO_RUNTIME;
	saved = errno;
	if (!result && !ip_tls.reset_seen && device == TFMT_DEVICE_NONE)
		device = runtime_device((const void *)real, __builtin_return_address(0));
	if (!result && !ip_tls.reset_seen)
		ip_context_reset(FN_cudaDeviceReset, device);
	errno = saved;
	runtime_leave(&c);
	return result;
}

#define OPTIONS                                                                                              \
	enum cudaJitOption *jit, void **jit_values, unsigned nr_jit, enum cudaLibraryOption *options,        \
		void **values, unsigned nr
#define OPTION_ARGS jit, jit_values, nr_jit, options, values, nr

NAME(cudaLibraryLoadData, (cudaLibrary_t *out, const void *image, OPTIONS), (out, image, OPTION_ARGS))
NAME(cudaLibraryLoadFromFile, (cudaLibrary_t *out, const char *path, OPTIONS), (out, path, OPTION_ARGS))
NAME(cudaLibraryUnload, (cudaLibrary_t library), (library))
