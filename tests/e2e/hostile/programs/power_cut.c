/* SPDX-License-Identifier: MIT */
/* Allocates device memory 2000 times and is killed at once: its last events are in the ring file alone. */
#include <cuda_runtime_api.h>
#include <signal.h>

enum { NR_ALLOCATIONS = 2000 };

int main(void)
{
	for (int i = 0; i < NR_ALLOCATIONS; i++) {
		void *p;

		if (cudaMalloc(&p, 512 * (1 + i % 300)) != cudaSuccess)
			return 1;
	}
	return raise(SIGKILL);
}
