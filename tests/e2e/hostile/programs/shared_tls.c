/* SPDX-License-Identifier: MIT */
/*
 * A thread made by clone() without thread-local data of its own: it has its creator's, and both take GPU memory at once.
 * One thread of the C library's has been there before, else that one takes the process for one without threads.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NR_PAIRS 20000
#define STACK_BYTES (1 << 20)
#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static atomic_int has_ended;

static int take_and_free(void *unused)
{
	void *address;

	for (int i = 0; i < NR_PAIRS; i++) {
		cudaMalloc(&address, 8192);
		cudaFree(address);
	}
	atomic_store(&has_ended, 1);
	syscall(SYS_exit, 0);
	return unused != NULL;
}

static void *nothing(void *unused)
{
	return unused;
}

int main(void)
{
	unsigned char *stack = malloc(STACK_BYTES);
	pthread_t thread;
	int nr_pairs = 0;
	void *address;

	if (!stack || pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL) || cudaMalloc(&address, 4096))
		return 2;
	if (clone(take_and_free, stack + STACK_BYTES, FLAGS, NULL) < 0)
		return 2;
	for (; !atomic_load(&has_ended); nr_pairs++) {
		if (cudaMalloc(&address, 4096) || cudaFree(address))
			return 1;
	}
	printf("%d\n", 2 * (NR_PAIRS + nr_pairs) + 1);
	return 0;
}
