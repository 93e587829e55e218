/* SPDX-License-Identifier: MIT */
/*
 * Allocates and frees device memory and prints the processor time of a call, in ns: that of the fastest of many
 * short passes, for other programs on the machine only ever add to it.
 */
#include <stdio.h>
#include <time.h>

#include <cuda_runtime_api.h>

enum { PAIRS = 1000, PASSES = 200 };

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
	double fastest = 0, took;
	void *p;

	for (int pass = 0; pass < PASSES; pass++) {
		double start = now_ns();

		for (int i = 0; i < PAIRS; i++)
			if (cudaMalloc(&p, 4096) || cudaFree(p))
				return 2;
		took = (now_ns() - start) / (2 * PAIRS);
		if (!pass || took < fastest)
			fastest = took;
	}
	printf("%.1f\n", fastest);
	return 0;
}
