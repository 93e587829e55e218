/* SPDX-License-Identifier: MIT */
/* Eight threads allocate and free without end; main leaves in the middle of that, with status 7. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 8
#define WHILE_US 200000

static void *allocate(void *arg)
{
	(void)arg;
	for (;;) {
		void *p;

		if (!cudaMalloc(&p, 4096))
			cudaFree(p);
	}
}

int main(void)
{
	pthread_t thread;
	void *p;

	if (cudaMalloc(&p, 4096))
		return 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, allocate, NULL))
			return 2;
	usleep(WHILE_US);
	exit(7);
}
