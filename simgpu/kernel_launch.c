/* SPDX-License-Identifier: MIT */
/* Launches of kernels: they are checked and counted, or become nodes of a graph, and do nothing. */
#include <string.h>

#include "simgpu/internal.h"

static CUresult launch(const CUDA_KERNEL_NODE_PARAMS *k, CUstream stream, const CUlaunchAttribute *attributes,
		       unsigned nr_attributes)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUresult ret = sim_kernel_check(k->func, (unsigned long long)k->gridDimX * k->gridDimY * k->gridDimZ,
					(unsigned long long)k->blockDimX * k->blockDimY * k->blockDimZ,
					k->sharedMemBytes);

	if (!ret && sim_capture_entangles(stream))
		ret = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (ret)
		return ret;
	if (!sim_capturing(stream)) {
		sim_launched(1);
		return CUDA_SUCCESS;
	}
	memcpy(&node.kernel, k, sizeof(*k));
	sim_capture_kernel(stream, &node, attributes, nr_attributes);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra)
{
	const CUDA_KERNEL_NODE_PARAMS k = { function, gx, gy, gz, bx, by, bz, shared, params, extra, NULL, NULL };

	return launch(&k, stream, NULL, 0);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra)
{
	CUDA_KERNEL_NODE_PARAMS k = { .func = function, .kernelParams = params, .extra = extra };

	if (!c || (c->numAttrs && !c->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	k.gridDimX = c->gridDimX;
	k.gridDimY = c->gridDimY;
	k.gridDimZ = c->gridDimZ;
	k.blockDimX = c->blockDimX;
	k.blockDimY = c->blockDimY;
	k.blockDimZ = c->blockDimZ;
	k.sharedMemBytes = c->sharedMemBytes;
	return launch(&k, c->hStream, c->attrs, c->numAttrs);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
				   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
				   CUstream stream, void **params)
{
	return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}
