/* SPDX-License-Identifier: MIT */
/* An allocator for torch.cuda.memory.CUDAPluggableAllocator. */
#include <cuda_runtime_api.h>
#include <sys/types.h>

void *plain_malloc(ssize_t size, int device, cudaStream_t stream)
{
	void *p = NULL;

	(void)device;
	(void)stream;
	return cudaMalloc(&p, (size_t)size) ? NULL : p;
}

void plain_free(void *p, ssize_t size, int device, cudaStream_t stream)
{
	(void)size;
	(void)device;
	(void)stream;
	cudaFree(p);
}
