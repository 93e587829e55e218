/* SPDX-License-Identifier: MIT */
/*
 * Memory that ends with its context: 64 MiB in a context that is destroyed, then in the primary one, which is reset,
 * retained again, and released. Nothing is freed by itself. Prints what each call returns.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

static void *driver, *context;

static void say(const char *what, int error)
{
	printf("%s: %d\n", what, error);
}

static void allocate(void)
{
	int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
	uint64_t address = 0;

	say("cuMemAlloc", alloc(&address, 64 << 20));
}

static int on_device(const char *name)
{
	int (*f)(int) = (int (*)(int))dlsym(driver, name);

	return f(0);
}

static int retain(void)
{
	int (*get)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
	int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
	int error = get(&context, 0);

	return error ? error : set(context);
}

int main(void)
{
	int (*create)(void **, unsigned, int), (*destroy)(void *);

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		return 2;
	*(void **)&create = dlsym(driver, "cuCtxCreate_v2");
	*(void **)&destroy = dlsym(driver, "cuCtxDestroy_v2");
	say("cuInit", on_device("cuInit"));
	say("cuCtxCreate", create(&context, 0, 0));
	allocate();
	say("cuCtxDestroy", destroy(context));
	say("cuDevicePrimaryCtxRetain", retain());
	allocate();
	say("cuDevicePrimaryCtxReset", on_device("cuDevicePrimaryCtxReset_v2"));
	say("cuDevicePrimaryCtxRelease", on_device("cuDevicePrimaryCtxRelease_v2"));
	return 0;
}
