/* SPDX-License-Identifier: MIT */
/*
 * What the wrappers of the driver's entry points share (hooks_memory.c, hooks_pool.c, ...): the driver
 * ledger.
 *
 * What a call took is recorded after it has worked, what it gives back before the real call (another thread
 * can be given the same address before that returns), and taken back if the real call fails.
 *
 * All functions below keep errno and may be called on any thread, outside t->busy.
 */
#ifndef IP_HOOKS_DRIVER_H
#define IP_HOOKS_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include "captures.h"
#include "cupti.h"
#include "interpose.h"
#include "opencall.h"
#include "resolve.h"

/* The real function, for the one call that a wrapper is about to make. */
#define REAL(fn) ((__typeof__(&fn))ip_real_call(FN_##fn))

/* What a program gets from a wrapper when there is no driver, or one too old to have the function. */
#define NO_DRIVER ((CUresult)ip_no_driver())

#define IP_OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation alike */
#define IP_SHUT_DOWN                                                                                         \
	4 /* CUDA_ERROR_DEINITIALIZED, cudaErrorCudartUnloading: what is freed now is gone anyway */

#define IP_CURRENT_DEVICE 0xfeu /* in an event's device: that of the calling thread's context */

/*
 * A driver function that answers a question of ours; NULL if this driver has none such. Looked up once,
 * whether it is found or not: lookups take the loader's lock.
 */
struct ip_question {
	const char *symbol;
	_Atomic uint64_t asked; /* the driver's epoch then, + 1 */
	void *_Atomic function;
};
void *ip_question_function(struct ip_question *q);
#define ASK(fn)                                                                                              \
	({                                                                                                   \
		static struct ip_question question_ = { .symbol = #fn };                                     \
		(__typeof__(&fn))ip_question_function(&question_);                                           \
	})

/* A driver wrapper has been reached: the runtime wrapper around it, if any, has nothing to record. */
static inline void ip_reached(void)
{
	ip_tls.driver_seen = true;
	if (!atomic_load_explicit(&ip_recorder->driver_hooked, memory_order_relaxed))
		atomic_store_explicit(&ip_recorder->driver_hooked, true, memory_order_relaxed);
}

/* ---- calls within calls ----
 *
 * Another interposer, which our real calls reach, may do with other calls what it is asked for, and these reach us
 * again: memory is recorded once, as the innermost call took it. What a jump out of such a call leaves in
 * ip_tls.entered, the next one sets anew before it looks.
 */

/* A driver wrapper that records allocations is about to make its call; returns what ip_leave() needs. */
static inline struct ip_taken ip_enter(void)
{
	struct ip_taken outer = ip_tls.entered;

	ip_tls.entered = ip_tls.taken;
	return outer;
}

/* It has recorded what there was to record. */
static inline void ip_leave(struct ip_taken outer)
{
	ip_tls.entered = outer;
}

/* A driver wrapper that frees has been reached. A free that a jump has left is no more around it. */
static inline __attribute__((always_inline)) void ip_free_reached(void)
{
	const struct unwind_registers at = UNWIND_CALLER();

	ip_reached();
	if (ip_tls.freeing.address && !open_frame_stands(NULL, &ip_tls.freeing.at, &at))
		ip_tls.freeing.address = 0;
}

/* It is about to free this; after the call, nothing (address 0). */
static inline __attribute__((always_inline)) void ip_freeing(unsigned space, uint64_t address)
{
	ip_tls.freeing = (struct ip_freeing){ address, space, UNWIND_CALLER() };
}

/* ---- driver_event.c ---- */

/*
 * Record an event of the driver domain. Recording must have begun. Returns the thread's state, for samples to
 * follow, or NULL if the event could not be recorded.
 */
struct ip_thread *ip_driver_event(struct tfmt_record ev);

/* Record an event of something that came to be, as ip_driver_event() does: recording begins with it if need be. */
struct ip_thread *ip_driver_born(struct tfmt_record ev);

/*
 * Record what an allocation call did: `ev` is what it took (kind, space, size; address as it stands after
 * success), `error` its result. An allocation, a refusal for lack of memory, or nothing, also if a call
 * within has recorded it. Returns as ip_driver_event(), of an allocation that worked only.
 */
struct ip_thread *ip_driver_took(struct tfmt_record ev, int error);

/* What ip_driver_took() records of a call that takes memory, nobody knows how much: only that there was none. */
static inline void ip_driver_result(uint16_t function, unsigned device, CUresult result)
{
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		ip_driver_took((struct tfmt_record){ .kind = TFMT_DRIVER_ALLOC,
						     .flags = TFMT_SPACE_DEVICE,
						     .function = function,
						     .device = (uint8_t)device },
			       (int)result);
}

/* Is the free that a wrapper is about to make one to record? Not if the wrapper around it has done so. */
bool ip_is_to_free(unsigned space, uint64_t address);

/* Something that was born with ip_driver_born() is gone. */
static inline void ip_driver_gone(uint16_t function, enum tfmt_object object, uint64_t handle)
{
	ip_driver_event((struct tfmt_record){ .kind = TFMT_OBJECT_GONE,
					      .flags = (uint16_t)object,
					      .function = function,
					      .device = IP_CURRENT_DEVICE,
					      .address = handle });
}

/* Memory has been given to other processes; bytes 0 = all that is there. */
static inline void ip_driver_exported(uint16_t function, uint64_t address, uint64_t bytes)
{
	ip_driver_event((struct tfmt_record){ .kind = TFMT_OBJECT_NEW,
					      .flags = TFMT_OBJECT_EXPORT,
					      .function = function,
					      .device = IP_CURRENT_DEVICE,
					      .address = address,
					      .size = bytes });
}

/* The number by which events name a stream. */
uint16_t ip_stream_number(CUstream stream);

/* ---- hooks_ipc.c ---- */

/* Bytes of the allocation that begins at an address, as the driver tells; 0 = it does not. */
uint64_t ip_range_bytes(CUdeviceptr address);

/* ---- hooks_context.c ---- */

/* Number of the calling thread's context: 0 = a primary one, or none. */
uint32_t ip_context_number(void);

/* The device's primary context is in use, by this function: the first time, record that it is there. */
void ip_context_used(uint16_t function, unsigned device);

/* What the stream belongs to: captures.h. */
struct ip_capture_home ip_stream_home(CUstream stream);

/* ---- hooks_capture.c ---- */

/* The streams of a context are about to go, and have gone or have not: ip_captures_hold_home(), ip_captures_let_go(). */
uint64_t ip_captures_hold_of(struct ip_capture_home home);
void ip_captures_settle(uint64_t held, bool gone);

/* ---- hooks_graph.c ---- */

/* Is the stream being captured into a graph? */
bool ip_is_captured(CUstream stream);

/* An allocation on a device has become a node of a graph that is being captured. */
void ip_graph_captured_alloc(unsigned device);

/* A capture has ended with this graph, NULL = with none. */
void ip_graph_capture_ended(void *graph);

/* ---- wrappers of the regular kinds --------------------------------------------------------------- */

/* An entry point that allocates: OUT is where the address is after success, BYTES what it took. */
#define ALLOC(name, space, params, args, out, bytes)                                                         \
	IP_EXPORT CUresult CUDAAPI name params;                                                              \
	IP_EXPORT CUresult CUDAAPI name params                                                               \
	{                                                                                                    \
		struct ip_taken outer = ip_enter();                                                          \
		__typeof__(&name) real = REAL(name);                                                         \
		CUresult result = real ? real args : NO_DRIVER;                                              \
                                                                                                             \
		ip_reached();                                                                                \
		ip_driver_alloc(FN_##name, (int)result, space, result ? 0 : (uint64_t)(out), bytes);         \
		ip_leave(outer);                                                                             \
		return result;                                                                               \
	}

/* An entry point that frees ADDRESS. */
#define FREE(name, space, params, args, address)                                                             \
	IP_EXPORT CUresult CUDAAPI name params;                                                              \
	IP_EXPORT CUresult CUDAAPI name params                                                               \
	{                                                                                                    \
		bool recorded = (ip_free_reached(), ip_driver_free(FN_##name, space, (uint64_t)(address)));  \
		__typeof__(&name) real = REAL(name);                                                         \
		CUresult result;                                                                             \
                                                                                                             \
		ip_freeing(space, (uint64_t)(address));                                                      \
		result = real ? real args : NO_DRIVER;                                                       \
		ip_freeing(space, 0);                                                                        \
		if (recorded && result)                                                                      \
			ip_driver_free_failed(FN_##name, (int)result, space, (uint64_t)(address));           \
		return result;                                                                               \
	}

/*
 * An entry point after whose success AFTER, an expression, is to be evaluated; `result` is the call's. A
 * failure for lack of memory is recorded, as the device's.
 */
#define WRAP(name, params, args, after) WRAP_ON(IP_CURRENT_DEVICE, name, params, args, after)
#define WRAP_ON(on_device, name, params, args, after)                                                        \
	IP_EXPORT CUresult CUDAAPI name params;                                                              \
	IP_EXPORT CUresult CUDAAPI name params                                                               \
	{                                                                                                    \
		struct ip_taken outer = ip_enter();                                                          \
		__typeof__(&name) real = REAL(name);                                                         \
		CUresult result = real ? real args : NO_DRIVER;                                              \
                                                                                                             \
		ip_reached();                                                                                \
		if (!result)                                                                                 \
			after;                                                                               \
		ip_driver_result(FN_##name, (unsigned)(on_device), result);                                  \
		ip_leave(outer);                                                                             \
		return result;                                                                               \
	}

#endif
