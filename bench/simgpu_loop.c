/* SPDX-License-Identifier: MIT */
/*
 * What the simulated GPU's busiest calls cost, in ns each: kernel launches, and cudaPointerGetAttributes among
 * more and more live allocations. Prints one line "NAME NS" per figure, the median of several passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

enum { CALLS = 100000, PASSES = 9, MOST_LIVE = 10000 };

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void check(int status, const char *what)
{
	if (status) {
		fprintf(stderr, "simgpu_loop: %s failed with %d\n", what, status);
		exit(2);
	}
}

/* Run PASS with ARGUMENT several times and print its median time for one of its CALLS calls. */
static void measure(const char *name, void (*pass)(void *argument), void *argument)
{
	double times[PASSES];

	for (int i = 0; i < PASSES; i++) {
		double start = now_ns();

		pass(argument);
		times[i] = (now_ns() - start) / CALLS;
	}
	qsort(times, PASSES, sizeof(*times), by_value);
	printf("%s %.1f\n", name, times[PASSES / 2]);
}

static void launch_driver(void *function)
{
	for (int i = 0; i < CALLS; i++)
		check(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
}

static void launch_runtime(void *kernel)
{
	const dim3 one = { 1, 1, 1 };

	for (int i = 0; i < CALLS; i++)
		check(cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), "cudaLaunchKernel");
}

struct live {
	char *p[MOST_LIVE];
	int nr;
};

static void ask_pointers(void *argument)
{
	struct cudaPointerAttributes attributes;
	struct live *live = argument;

	for (int i = 0; i < CALLS; i++)
		check(cudaPointerGetAttributes(&attributes, live->p[i * 7919 % live->nr] + 100),
		      "cudaPointerGetAttributes");
}

int main(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";
	static struct live live;
	CUmodule module;
	CUfunction function;
	cudaLibrary_t library;
	cudaKernel_t kernel;
	char name[64];

	check(cudaFree(NULL), "cudaFree");
	check(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
	check(cuModuleGetFunction(&function, module, "nothing"), "cuModuleGetFunction");
	check(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), "cudaLibraryLoadData");
	check(cudaLibraryGetKernel(&kernel, library, "nothing"), "cudaLibraryGetKernel");
	measure("cuLaunchKernel", launch_driver, function);
	measure("cudaLaunchKernel", launch_runtime, kernel);
	for (int nr = 10; nr <= MOST_LIVE; nr *= 10) {
		for (; live.nr < nr; live.nr++)
			check(cudaMalloc((void **)&live.p[live.nr], 4096), "cudaMalloc");
		snprintf(name, sizeof(name), "cudaPointerGetAttributes,%d", nr);
		measure(name, ask_pointers, &live);
	}
	return 0;
}
