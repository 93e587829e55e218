/* SPDX-License-Identifier: MIT */
/*
 * usage: rings_loop PAIRS [THREADS]
 *
 * Takes driver memory and gives it back PAIRS times, in each of THREADS threads that begin at once (1). Prints the
 * nanoseconds of processor time that the process took for one event, its page faults meanwhile, and the nanoseconds
 * that all of it took.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define STACK_BYTES (256u << 10)

static pthread_barrier_t together;
static long nr_pairs;

static double now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void *allocate(void *unused)
{
	void *p;

	pthread_barrier_wait(&together);
	for (long i = 0; i < nr_pairs; i++) {
		if (cudaMalloc(&p, 4096) || cudaFree(p))
			exit(3);
	}
	pthread_barrier_wait(&together);
	return unused;
}

int main(int argc, char **argv)
{
	long nr_threads = argc > 2 ? atol(argv[2]) : 1;
	pthread_t *thread = calloc((size_t)nr_threads, sizeof(*thread));
	pthread_attr_t attributes;
	struct rusage before, after;
	double cpu, wall;
	void *p;

	nr_pairs = argc > 1 ? atol(argv[1]) : 100000;
	if (cudaMalloc(&p, 4096) || cudaFree(p)) /* what happens once has happened */
		return 3;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&together, NULL, (unsigned)nr_threads);
	getrusage(RUSAGE_SELF, &before);
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall = now_ns(CLOCK_MONOTONIC);
	for (long i = 0; i < nr_threads; i++) {
		if (pthread_create(&thread[i], &attributes, allocate, NULL))
			return 4;
	}
	for (long i = 0; i < nr_threads; i++)
		pthread_join(thread[i], NULL);
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = now_ns(CLOCK_MONOTONIC) - wall;
	getrusage(RUSAGE_SELF, &after);
	printf("%.1f %ld %.0f\n", cpu / (double)(2 * nr_pairs * nr_threads), after.ru_minflt - before.ru_minflt, wall);
	free(thread);
	return 0;
}
