/* SPDX-License-Identifier: MIT */
/* A stranger's preload library: counts cudaMalloc and forwards it, as other profilers and fault injectors do. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long nr_mallocs;

/* The runtime's enumerations are ints at this level: no CUDA header is needed. */
int cudaMalloc(void **out, size_t bytes);

int cudaMalloc(void **out, size_t bytes)
{
	int (*next)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");

	nr_mallocs++;
	return next(out, bytes);
}

__attribute__((destructor)) static void print_count(void)
{
	const char *path = getenv("COUNTING_OUTPUT");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (file) {
		fprintf(file, "%lu\n", nr_mallocs);
		fclose(file);
	}
}
