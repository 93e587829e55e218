/* SPDX-License-Identifier: MIT */
/*
 * Another interposer, which gives managed memory out for device memory: with calls that may be interposed in
 * turn. With too little to give it asks for a second time, as device memory; and it keeps a little for
 * itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define KEPT 512
#define SMALL 1000

int cuMemAllocManaged(uint64_t *out, size_t bytes, unsigned flags);
int cuMemFreeAsync(uint64_t address, void *stream);

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	static uint64_t own;
	int (*real)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	int result;

	if (bytes < SMALL) {
		result = own ? 0 : cuMemAllocManaged(&own, KEPT, 1);
		return result ? result : real(out, bytes);
	}
	result = cuMemAllocManaged(out, bytes, 1);
	return result ? real(out, bytes) : 0;
}

int cuMemFree_v2(uint64_t address)
{
	return cuMemFreeAsync(address, NULL);
}
