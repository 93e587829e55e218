/* SPDX-License-Identifier: MIT */
/* A library whose initialiser takes 1 GiB of the GPU, before preloaded libraries are initialised. */
#include <cuda_runtime_api.h>

extern void *early_block;
void *early_block;

static __attribute__((constructor)) void take(void)
{
	cudaMalloc(&early_block, 1ull << 30);
}
