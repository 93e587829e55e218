/* SPDX-License-Identifier: MIT */
/* Prints how many devices there are, or why that cannot be told (status 1). */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
	int count;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error)
		printf("%s\n", cudaGetErrorString(error));
	else
		printf("%d\n", count);
	return error != cudaSuccess;
}
