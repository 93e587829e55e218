/* SPDX-License-Identifier: MIT */
/*
 * Graphs of the runtime half. Most structures are the driver's under other names; those of kernels, copies
 * and the union of all are not. What is declared here is shared by the files about them.
 */
#ifndef SIMGPU_RUNTIME_GRAPH_H
#define SIMGPU_RUNTIME_GRAPH_H

#include "simgpu/runtime.h"

#define SAME_LAYOUT(a, b) _Static_assert(sizeof(a) == sizeof(b), #a " and " #b)

/* The runtime's CALL after PREPARE, which makes the driver's structure and may fail. */
#define RUNTIME_WITH(prepare, call)                                                                          \
	({                                                                                                   \
		cudaError_t made_ = (prepare);                                                               \
		made_ ? sim_runtime_error(made_) : RUNTIME(call);                                            \
	})

/* The driver's parameters of a kernel, and of any node; invalid value for NULL. */
cudaError_t sim_runtime_graph_kernel(const struct cudaKernelNodeParams *from, CUDA_KERNEL_NODE_PARAMS *to);
cudaError_t sim_runtime_graph_node(const struct cudaGraphNodeParams *from, CUgraphNodeParams *to);

#endif
