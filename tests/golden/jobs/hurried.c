/* SPDX-License-Identifier: MIT */
/* More calls than a ring holds while the recorder waits for its disk, and a few when it has written. */
#include <cuda_runtime_api.h>
#include <unistd.h>

static int pairs(unsigned number)
{
	for (void *block; number; number--)
		if (cudaMalloc(&block, 4096) || cudaFree(block))
			return 1;
	return 0;
}

int main(void)
{
	if (pairs(9000))
		return 1;
	sleep(2);
	return pairs(5);
}
