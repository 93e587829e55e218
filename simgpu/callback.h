/* SPDX-License-Identifier: MIT */
/*
 * CUPTI's view of simgpu: who has to be told of calls, of objects made and destroyed, and of memory.
 *
 * Every driver and runtime function that a source of simgpu defines is exported through a wrapper that
 * gen_callbacks.py writes: with no CUPTI client it costs one load and a branch, with one it calls
 * sim_call_enter() and sim_call_exit() around the function. The functions call each other below the wrappers,
 * so a program's call is told of once; the runtime half reaches the driver half by looked-up names, that is
 * through the wrappers, as a real runtime does.
 */
#ifndef SIMGPU_CALLBACK_H
#define SIMGPU_CALLBACK_H

#include "simgpu/internal.h"

#pragma GCC visibility push(default)
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#pragma GCC visibility pop

/* Whether a client subscribed or records memory: the one thing a wrapper looks at when nobody did. */
extern bool sim_cupti_on;
void sim_cupti_update(void);

/* One call under way on this thread. */
struct sim_call {
	const char *name;
	const void *params;		/* its arguments, as the generated *_params struct of CUPTI's headers */
	void *result;
	const char *symbol;		/* the kernel that a launch launches, else NULL */
	CUpti_CallbackDomain domain;
	CUpti_CallbackId cbid;
	uint32_t correlation;		/* a driver call below a runtime call has the runtime call's */
	uint64_t data;			/* the client's, from enter to exit */
	uint64_t timestamp;		/* of its begin, on the client's clock; 0 when nobody wants records */
	struct sim_call *outer;
};

void sim_call_enter(struct sim_call *call);
void sim_call_exit(struct sim_call *call);

/*
 * The name of a driver's function or kernel (module.c), and of what a program launches through the runtime
 * (runtime_kernel.c); NULL when it is none. Unlike CUDA's functions for that, no call that CUPTI tells of.
 */
const char *sim_function_name(CUfunction function);
const char *sim_kernel_name(const void *host);

/* Correlation id and time of this thread's current call, 0 when there is none. */
uint32_t sim_call_correlation(void);
uint64_t sim_call_timestamp(void);

/*
 * A context, stream or module has come into being. Told when this thread's current call is about to return,
 * so it may be called with sim_lock() held. IMAGE is a module's code of BYTES bytes.
 */
void sim_tell_created(CUpti_CallbackIdResource what, void *context, void *stream);
void sim_tell_module_loaded(uint32_t id, const void *image, size_t bytes);

/* It is about to go: told at once, not to be called with sim_lock() held. */
void sim_tell_destroying(CUpti_CallbackIdResource what, void *context, void *stream);
void sim_tell_module_unloading(uint32_t id);

/* STREAM, or the current context when NULL, has been waited for. Not locked. */
void sim_tell_synchronised(CUpti_CallbackIdSync what, void *stream);

/* ---- memory records (cupti_activity.c) ------------------------------------------------------- */

/* A pool as a record describes it. */
struct sim_pool_state {
	uint64_t address, threshold, reserved, used;
};

/* BLOCK was allocated, or released; POOL and STREAM (a number) for stream-ordered memory, else NULL and 0. */
void sim_record_memory(CUpti_ActivityMemoryOperationType what, const struct sim_block *block,
		       const struct sim_pool_state *pool, uint32_t stream);

/* A pool of DEVICE was created, destroyed or trimmed down to KEEP bytes. */
void sim_record_pool(CUpti_ActivityMemoryPoolOperationType what, int device, const struct sim_pool_state *pool,
		     size_t keep);

/* Whether records are being kept; hand the client what there is when much has come together. Not locked. */
bool sim_records_wanted(void);
void sim_records_deliver_some(void);

#endif
