/* SPDX-License-Identifier: MIT */
/* Limits its files to so many bytes, then makes 40,000 calls that allocate and free. Usage: small_files BYTES */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	rlim_t most = argc > 1 ? (rlim_t)atol(argv[1]) : 0;
	struct rlimit l = { most, most };

	if (setrlimit(RLIMIT_FSIZE, &l))
		return 1;
	for (size_t i = 0; i < 20000; i++) {
		void *p;

		if (cudaMalloc(&p, 4096 + i) || cudaFree(p))
			return 1;
	}
	puts("40,000 calls");
	return 0;
}
