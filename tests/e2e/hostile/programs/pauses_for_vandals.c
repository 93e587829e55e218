/* SPDX-License-Identifier: MIT */
/*
 * Allocates, says "ready", waits for a line on its standard input, and goes on allocating for several laps of a ring:
 * meanwhile somebody cuts short what the recorder has by name. A store into a mapped file that has become too short is
 * a SIGBUS.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#define BEFORE 1000
#define AFTER 40000

static int allocate(int pairs)
{
	void *p;

	for (int i = 0; i < pairs; i++) {
		if (cudaMalloc(&p, 4096) || cudaFree(p))
			return 1;
	}
	return 0;
}

int main(void)
{
	char line[8];

	if (allocate(BEFORE))
		return 3;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin) || allocate(AFTER))
		return 3;
	puts("done");
	return 0;
}
