/* SPDX-License-Identifier: MIT */
/* Takes 1 MiB beside what early_library.c has taken, and frees both. */
#include <cuda_runtime_api.h>

extern void *early_block;

int main(void)
{
	void *p;

	if (!early_block || cudaMalloc(&p, 1 << 20) || cudaFree(p))
		return 1;
	return cudaFree(early_block) ? 1 : 0;
}
