/* SPDX-License-Identifier: MIT */
/*
 * Many threads that allocate and free, and count what they have done in a shared file.
 * usage: storm COUNTS threads THREADS PAIRS    so many at once, PAIRS allocations and frees each
 *        storm COUNTS churn THREADS PAIRS      one short thread after another, eight at a time
 *        storm COUNTS told THREADS PAIRS       as threads, after one pair and a line on stdin
 * COUNTS is a file of 64-bit pairs, one for each thread: calls begun, calls finished.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemFree_v2(uint64_t address);

enum { AT_ONCE = 8 };

struct counts {
	_Atomic uint64_t begun, finished;
};

static struct counts *counts;
static uint64_t nr_pairs;

static void *work(void *arg)
{
	struct counts *c = arg;
	uint64_t address;

	for (uint64_t i = 0; i < nr_pairs; i++) {
		c->begun++;
		cuMemAlloc_v2(&address, 512 * (1 + i % 300));
		c->finished++;
		c->begun++;
		cuMemFree_v2(address);
		c->finished++;
	}
	return NULL;
}

static void run(unsigned nr_threads, unsigned at_once)
{
	pthread_t *thread = calloc(nr_threads, sizeof(*thread));
	unsigned joined = 0;

	for (unsigned i = 0; i < nr_threads; i++) {
		if (i - joined == at_once)
			pthread_join(thread[joined++], NULL);
		if (pthread_create(&thread[i], NULL, work, &counts[i]))
			abort();
	}
	while (joined < nr_threads)
		pthread_join(thread[joined++], NULL);
	free(thread);
}

int main(int argc, char **argv)
{
	unsigned nr_threads = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	size_t bytes = nr_threads * sizeof(*counts);
	int fd = argc > 4 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	struct timespec start, end;

	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		fprintf(stderr, "usage: storm COUNTS threads|churn|told THREADS PAIRS\n");
		return 2;
	}
	counts = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	nr_pairs = strtoull(argv[4], NULL, 10);
	cuInit(0);
	if (!strcmp(argv[2], "told")) {
		uint64_t address;

		cuMemAlloc_v2(&address, 512);
		cuMemFree_v2(address);
		printf("ready\n");
		fflush(stdout);
		getchar();
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	run(nr_threads, strcmp(argv[2], "churn") ? nr_threads : AT_ONCE);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.0f ns/event\n", ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) /
				  ((double)nr_threads * (double)nr_pairs * 2));
	return 0;
}
