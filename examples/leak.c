/* SPDX-License-Identifier: MIT */
/*
 * A C program that forgets to free device memory. It processes frames; each frame borrows a scratch buffer,
 * which is freed, and keeps a history buffer, which never is.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { NR_FRAMES = 16, SCRATCH_BYTES = 8 << 20, HISTORY_BYTES = 3 << 20 };

static void *device_alloc(size_t bytes)
{
	void *p;
	cudaError_t err = cudaMalloc(&p, bytes);

	if (err != cudaSuccess) {
		fprintf(stderr, "leak: cudaMalloc of %zu bytes: %s\n", bytes, cudaGetErrorString(err));
		exit(1);
	}
	return p;
}

static void process_frame(const void *frame)
{
	void *scratch = device_alloc(SCRATCH_BYTES);

	cudaMemcpy(scratch, frame, 64, cudaMemcpyHostToDevice);
	cudaFree(scratch);
}

/* The bug: nobody ever frees what this returns. */
static void *remember_frame(const void *frame)
{
	void *history = device_alloc(HISTORY_BYTES);

	cudaMemcpy(history, frame, 64, cudaMemcpyHostToDevice);
	return history;
}

int main(void)
{
	static const char frame[64];
	size_t kept = 0;

	for (int i = 0; i < NR_FRAMES; i++) {
		process_frame(frame);
		if (remember_frame(frame))
			kept++;
	}
	printf("leaked %zu blocks, %zu bytes\n", kept, kept * HISTORY_BYTES);
	return 0;
}
