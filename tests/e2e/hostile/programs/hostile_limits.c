/* SPDX-License-Identifier: MIT */
/*
 * Takes GPU memory under a limit that it has set itself. Usage: hostile_limits WHAT PAIRS
 *
 *   threads     no further thread (root is not held to it)
 *   space       no more than 400 MiB of address space
 *   file        no file of more than 8 KiB, set after the first call of CUDA
 *   early-file  the same of 64 MiB, set before
 *   lock        all memory is locked, also what is yet to be mapped; prints how many kB that is in the end
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void limit(int resource, rlim_t most)
{
	struct rlimit l = { most, most };

	if (setrlimit(resource, &l))
		perror("setrlimit");
}

static void print_locked(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmLck:", 6))
			printf("%d\n", atoi(line + 6));
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	long failed = 0, pairs = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(what, "threads"))
		limit(RLIMIT_NPROC, 0);
	else if (!strcmp(what, "space"))
		limit(RLIMIT_AS, 400u << 20);
	else if (!strcmp(what, "early-file"))
		limit(RLIMIT_FSIZE, 64u << 20);
	else if (!strcmp(what, "lock") && mlockall(MCL_CURRENT | MCL_FUTURE))
		perror("mlockall");
	cudaFree(NULL);
	if (!strcmp(what, "file"))
		limit(RLIMIT_FSIZE, 8192);
	for (long i = 0; i < pairs; i++) {
		void *p;

		failed += cudaMalloc(&p, 4096 + (size_t)i) != cudaSuccess || cudaFree(p) != cudaSuccess;
	}
	if (!strcmp(what, "lock"))
		print_locked();
	return failed ? 1 : 0;
}
