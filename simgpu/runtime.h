/* SPDX-License-Identifier: MIT */
/*
 * The runtime half: cuda* functions over driver functions that are looked up, never called by name. A
 * preloaded recorder that wraps dlsym or cuGetProcAddress therefore sees every call of this half, as with the
 * real runtime.
 */
#ifndef SIMGPU_RUNTIME_H
#define SIMGPU_RUNTIME_H

#include "simgpu/driver_table.h"

/* Look the driver up and initialise it, once; its error, the same each time, when that fails. */
cudaError_t sim_runtime_init(void);

/* As sim_runtime_init(), and make the primary context of this thread's device current if no context is. */
cudaError_t sim_runtime_context(void);

/* Let programs launch FUNCTION by HANDLE, a cudaKernel_t, as they launch kernels by their host addresses. */
void sim_runtime_kernel(const void *handle, CUfunction function);

/* CALL of the driver table with a context, or without; the error is remembered and returned. */
#define RUNTIME(call) RUNTIME_AFTER(sim_runtime_context(), call)
#define RUNTIME_NO_CONTEXT(call) RUNTIME_AFTER(sim_runtime_init(), call)
#define RUNTIME_AFTER(prepare, call)                                                                       \
	({                                                                                                 \
		cudaError_t error_ = (prepare);                                                            \
		sim_runtime_error(error_ ? error_ : (cudaError_t)sim_driver()->call);                      \
	})

#endif
