/* SPDX-License-Identifier: MIT */
/*
 * A library that looks things up on its own account: compiled under several names. -DOWN adds functions of its own
 * with names like the driver's; -DTRAMPOLINE an entry point that finds the driver's and calls it, as TensorFlow has; -DCOLLECT a
 * function that calls the NCCL which the library is linked with.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

void *visitor_look_up(void *handle, const char *name);
void *visitor_open(const char *file, int flags);

void *visitor_look_up(void *handle, const char *name)
{
	void *volatile found = dlsym(handle, name);

	return found;
}

void *visitor_open(const char *file, int flags)
{
	void *volatile handle = dlopen(file, flags);

	return handle;
}

#ifdef OWN
int cudnnCreate(void);
int cuFoo(void);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);

int cudnnCreate(void)
{
	return 1;
}

int cuFoo(void)
{
	return 2;
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	*out = bytes;
	return 3;
}
#endif

#ifdef TRAMPOLINE
int cuMemAlloc_v2(uint64_t *out, size_t bytes);

unsigned visitor_calls;

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	static int (*real)(uint64_t *, size_t);

	visitor_calls++;
	if (!real)
		*(void **)&real = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
	return real(out, bytes);
}
#endif

#ifdef COLLECT
extern int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int visitor_collect(void *unused);

int visitor_collect(void *unused)
{
	return ncclAllReduce(unused, NULL, 0, 0, 0, NULL, NULL);
}
#endif
