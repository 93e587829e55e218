/* SPDX-License-Identifier: MIT */
/* One cudaMalloc of 1 MiB; prints its status. Ends with 1 if it failed. */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
	void *p;
	int status = cudaMalloc(&p, 1 << 20);

	printf("cudaMalloc %d\n", status);
	return status != 0;
}
