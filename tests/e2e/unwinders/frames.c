/* SPDX-License-Identifier: MIT */
/*
 * Allocates from native stacks of several kinds: recursion, a callback of the C library, a signal handler, threads, a
 * frame that aligns its stack. usage: frames [unload LIBRARY]
 */
#include <alloca.h>
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096

static CUcontext context;

__attribute__((noinline)) static void allocate(void)
{
	CUdeviceptr p;

	if (cuMemAlloc(&p, BYTES) || cuMemFree(p))
		exit(1);
}

__attribute__((noinline)) static int recurse(int depth)
{
	int result = depth ? recurse(depth - 1) : 0;

	allocate();
	return result + depth;
}

static int compare(const void *a, const void *b)
{
	allocate();
	return *(const char *)a - *(const char *)b;
}

__attribute__((noinline)) static void aligned(size_t bytes)
{
	_Alignas(64) char room[64];
	volatile char *more = alloca(bytes);

	room[0] = more[0] = 1;
	allocate();
	__asm__ volatile("" : : "r"(room), "r"(more) : "memory");
}

static void on_signal(int number)
{
	(void)number;
	allocate();
}

static void *all_kinds(void *arg)
{
	char letters[] = "dcba";

	if (cuCtxSetCurrent(context))
		exit(1);
	recurse(20);
	qsort(letters, 4, 1, compare);
	aligned(100);
	raise(SIGUSR1);
	return arg;
}

int main(int argc, char **argv)
{
	const char *more = argc > 1 ? argv[1] : "";
	pthread_t thread;
	void *library;

	signal(SIGUSR1, on_signal);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
		return 1;
	all_kinds(NULL);
	if (!strcmp(more, "unload")) {
		library = dlopen(argv[2], RTLD_NOW);
		if (!library || dlclose(library))
			return 1;
	}
	pthread_create(&thread, NULL, all_kinds, NULL);
	pthread_join(thread, NULL);
	puts("done");
	return 0;
}
