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

/* The driver's function for HOST, what programs call a kernel by; and what they called FUNCTION by. */
cudaError_t sim_runtime_function(const void *host, CUfunction *function);
const void *sim_runtime_host(CUfunction function);

/*
 * A copy as the driver takes it, and the other way round. Where arrays take part, the runtime counts elements, the
 * driver bytes.
 */
cudaError_t sim_runtime_copy(const struct cudaMemcpy3DParms *from, CUDA_MEMCPY3D *to);
void sim_runtime_copy_back(const CUDA_MEMCPY3D *from, struct cudaMemcpy3DParms *to);

/* A copy of BYTES from SRC to DST. */
CUDA_MEMCPY3D sim_runtime_copy_linear(void *dst, const void *src, size_t bytes);

/*
 * Whether the program was built for CUDA 12, where some functions had other parameters under the same name: without
 * the data of edges, and with one more for batches of copies. Their later form has the suffix _v2 there.
 */
bool sim_runtime_is_twelve(void);

/* CALL of the driver table with a context, or without; the error is remembered and returned. */
#define RUNTIME(call) RUNTIME_AFTER(sim_runtime_context(), call)
#define RUNTIME_NO_CONTEXT(call) RUNTIME_AFTER(sim_runtime_init(), call)
#define RUNTIME_AFTER(prepare, call)                                                                       \
	({                                                                                                 \
		cudaError_t error_ = (prepare);                                                            \
		sim_runtime_error(error_ ? error_ : (cudaError_t)sim_driver()->call);                      \
	})

#endif
