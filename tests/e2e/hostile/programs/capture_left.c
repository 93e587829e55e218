/* SPDX-License-Identifier: MIT */
/*
 * Begins a stream capture and never ends it in the usual way, then makes and frees 200 allocations of 256 MiB.
 * usage: capture_left WAY (the functions below, by name)
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NR_ALLOCATIONS 200
#define BYTES ((size_t)256 << 20)

static void check(int result, const char *call)
{
	if (result) {
		fprintf(stderr, "%s returned %d\n", call, result);
		exit(1);
	}
}
#define OK(call) check((int)(call), #call)

static CUstream stream;

static void begin(void)
{
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void stream_destroyed(void)
{
	begin();
	OK(cuStreamDestroy(stream));
}

static void runtime_stream_destroyed(void)
{
	cudaStream_t other;

	OK(cudaStreamCreate(&other));
	OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
	OK(cudaStreamDestroy(other));
}

static void primary_context_reset(void)
{
	CUcontext context;

	begin();
	OK(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
}

static void device_reset(void)
{
	begin();
	OK(cudaDeviceReset());
	OK(cudaSetDevice(0));
}

static void context_destroyed(void)
{
	CUcontext context, primary;

	OK(cuCtxGetCurrent(&primary));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	begin();
	OK(cuCtxDestroy(context));
	OK(cuCtxSetCurrent(primary));
}

static void *end(void *arg)
{
	CUgraph graph;

	(void)arg;
	OK(cuStreamEndCapture(stream, &graph));
	return NULL;
}

static void another_thread_ended_it(void)
{
	pthread_t thread;

	begin();
	OK(pthread_create(&thread, NULL, end, NULL));
	OK(pthread_join(thread, NULL));
}

/* A synchronisation invalidates the capture; nobody ends it. */
static void invalidated(void)
{
	struct timespec longer_than_a_second = { 1, 100000000 };

	begin();
	if (!cuStreamSynchronize(stream))
		exit(1);
	nanosleep(&longer_than_a_second, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
#define WAY(name) { #name, name }
	WAY(stream_destroyed), WAY(runtime_stream_destroyed), WAY(primary_context_reset), WAY(device_reset),
	WAY(context_destroyed), WAY(another_thread_ended_it), WAY(invalidated),
};

int main(int argc, char **argv)
{
	CUcontext context;
	CUdeviceptr p;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(argv[1], ways[i].name))
			ways[i].run();
	for (int i = 0; i < NR_ALLOCATIONS; i++) {
		OK(cuMemAlloc(&p, BYTES));
		OK(cuMemFree(p));
		usleep(1000); /* longer than the pace of samples */
	}
	puts("done");
	return 0;
}
