/* SPDX-License-Identifier: MIT */
/*
 * usage: threads_loop NR
 *
 * NR threads, each with a device of its own, report blocks that come and go as PyTorch's allocator does, all in
 * the same short bursts. Prints the processor time of one report in a thread, in ns: the median of all bursts of
 * all threads. Between bursts the recorder's own thread catches up, so that no hook waits.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

/* As the recorder sees it, CUDA; the simulated GPU, which has a lock of its own, leaves it alone. */
#define HIP 6

enum { THREADS_MAX = 8, BURSTS = 200, PAIRS = 1000, DEPTH = 20, PAUSE_US = 10000 };

struct device {
	int8_t type, index;
};

static void (*report)(void *address, int64_t bytes, size_t allocated, size_t reserved, struct device device);
static pthread_barrier_t all_ready;
static double took_ns[THREADS_MAX][BURSTS];

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A burst, some frames deep: a stack that can be remembered, as a training step's. */
static __attribute__((noinline)) void burst(unsigned depth, struct device device)
{
	if (depth) {
		burst(depth - 1, device);
		__asm__ volatile(""); /* no tail call */
		return;
	}
	for (uint64_t i = 0; i < PAIRS; i++) {
		void *address = (void *)(uintptr_t)(((uint64_t)device.index + 1) << 40 | (i + 1) << 12);

		report(address, 512, 512, 2 << 20, device);
		report(address, -512, 0, 2 << 20, device);
	}
}

static void *thread(void *argument)
{
	double *took = argument;
	struct device device = { .type = HIP, .index = (int8_t)((took - took_ns[0]) / BURSTS) };

	for (int i = 0; i < BURSTS; i++) {
		double start;

		pthread_barrier_wait(&all_ready);
		start = now_ns();
		burst(DEPTH, device);
		took[i] = (now_ns() - start) / (2 * PAIRS);
		usleep(PAUSE_US);
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int nr = argc == 2 ? atoi(argv[1]) : 0;
	pthread_t threads[THREADS_MAX];
	void *symbol = dlsym(RTLD_DEFAULT, REPORT), *first;

	if (nr < 1 || nr > THREADS_MAX || !symbol) {
		fprintf(stderr, "threads_loop: a number of threads up to %d is needed, and the recorder\n", THREADS_MAX);
		return 2;
	}
	report = (__typeof__(report))symbol;
	/* A recording begins with the driver's first allocation. */
	for (int i = 0; i < nr; i++) {
		if (cudaSetDevice(i) || cudaMalloc(&first, 1))
			return 2;
	}
	pthread_barrier_init(&all_ready, NULL, (unsigned)nr);
	for (int i = 0; i < nr; i++)
		pthread_create(&threads[i], NULL, thread, took_ns[i]);
	for (int i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	qsort(took_ns, (size_t)nr * BURSTS, sizeof(double), by_value);
	printf("%.1f\n", took_ns[0][nr * BURSTS / 2]);
	return 0;
}
