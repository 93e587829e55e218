/* SPDX-License-Identifier: MIT */
/*
 * usage: many_threads THREADS
 *
 * All threads live at the same time, begin at once, make 40 events each, and wait until the last one has. Prints the
 * most memory that the process had resident, in KiB.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define PAIRS 20
#define STACK_BYTES (256u << 10)

static pthread_barrier_t together;

static void *allocate(void *unused)
{
	void *p;

	pthread_barrier_wait(&together);
	for (int i = 0; i < PAIRS; i++) {
		if (cudaMalloc(&p, 4096) || cudaFree(p))
			exit(3);
	}
	pthread_barrier_wait(&together);
	return unused;
}

int main(int argc, char **argv)
{
	int nr = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t *thread = calloc((size_t)nr, sizeof(*thread));
	pthread_attr_t attributes;
	struct rusage usage;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&together, NULL, (unsigned)nr);
	cudaFree(NULL);
	for (int i = 0; i < nr; i++) {
		if (pthread_create(&thread[i], &attributes, allocate, NULL))
			return 4;
	}
	for (int i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", usage.ru_maxrss);
	free(thread);
	return 0;
}
