/* SPDX-License-Identifier: MIT */
/*
 * Allocates and frees device memory for ever and stores how often it has, in shared memory, after each time.
 * usage: driver_loop COUNTER-FILE [LIMIT [FOLDER]]     (the file holds two 64-bit numbers: allocations, frees)
 *
 * With FOLDER it goes there after a while, and makes that its root, if it may.
 */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NR_SLOTS = 64 };

int main(int argc, char **argv)
{
	void *slots[NR_SLOTS] = { NULL };
	uint64_t limit = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
	volatile uint64_t *counts;
	int fd;

	fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	if (fd < 0) {
		fprintf(stderr, "usage: driver_loop COUNTER-FILE [LIMIT]\n");
		return 2;
	}
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED) {
		perror("driver_loop: mmap");
		return 2;
	}
	for (uint64_t number = 0; number < limit; number++) {
		void **slot = &slots[number % NR_SLOTS];

		if (number == NR_SLOTS && argc > 3 && (chdir(argv[3]) || (!geteuid() && chroot("."))))
			return 3;
		if (*slot) {
			if (cudaFree(*slot) != cudaSuccess)
				return 1;
			counts[1]++;
		}
		if (cudaMalloc(slot, 512 * (1 + number % 300)) != cudaSuccess)
			return 1;
		counts[0]++;
	}
	return 0;
}
