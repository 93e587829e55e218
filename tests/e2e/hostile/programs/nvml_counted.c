/* SPDX-License-Identifier: MIT */
/*
 * What a program gets of NVML, which counts who uses it: before it begins, while it uses it, after it has shut it down,
 * with GPU memory allocated in between. Prints one line for each.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES ((size_t)128 << 20)

static int (*init)(void), (*shut_down)(void), (*count)(unsigned *);

static void *function(void *library, const char *name)
{
	void *f = dlsym(library, name);

	if (!f) {
		fprintf(stderr, "%s is missing\n", name);
		exit(1);
	}
	return f;
}

static void tell(const char *when)
{
	unsigned nr;

	printf("%s: count %d\n", when, count(&nr));
}

static void allocate(void)
{
	CUdeviceptr p;

	for (int i = 0; i < 100; i++) {
		if (cuMemAlloc(&p, BYTES) || cuMemFree(p))
			exit(1);
		usleep(1000);
	}
}

int main(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	CUcontext context;

	init = library ? (int (*)(void))function(library, "nvmlInit_v2") : NULL;
	if (!init)
		return 1;
	shut_down = (int (*)(void))function(library, "nvmlShutdown");
	count = (int (*)(unsigned *))function(library, "nvmlDeviceGetCount_v2");
	tell("never begun");
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 1;
	tell("after cuInit");
	allocate();
	tell("after allocations");
	printf("init %d\n", init());
	tell("begun");
	allocate();
	tell("begun, after allocations");
	printf("shut down %d\n", shut_down());
	tell("shut down");
	allocate();
	tell("shut down, after allocations");
	printf("shut down again %d\n", shut_down());
	return 0;
}
