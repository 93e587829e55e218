/* SPDX-License-Identifier: MIT */
/* A libcuda.so.1 of a few functions, to see which of them a caller reaches through the recorder. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint64_t next_address = 0x10000000;

/* What a program may want to happen inside a call; it defines this with -rdynamic. */
extern void fake_inside(void) __attribute__((weak));
#define SAME_BYTES 4242 /* of which there is always the same memory */
#define SAME_ADDRESS 0x7000000

int cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

int cuCtxGetDevice(int *device)
{
	*device = 0;
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal ? 101 : 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = 1u << 30;
	return 0;
}

#ifdef DRIVER_VERSION
int cuDriverGetVersion(int *version)
{
	*version = DRIVER_VERSION;
	return 0;
}
#endif

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	if (bytes > 1u << 30)
		return 2;
	if (bytes == SAME_BYTES) {
		*out = SAME_ADDRESS;
		return 0;
	}
	*out = __atomic_fetch_add(&next_address, (bytes + 511) & ~(size_t)511, __ATOMIC_RELAXED);
	return 0;
}

int cuMemFree_v2(uint64_t address)
{
	if (fake_inside && address == SAME_ADDRESS)
		fake_inside();
	return 0;
}

int cuMemAllocManaged(uint64_t *out, size_t bytes, unsigned flags)
{
	return flags ? cuMemAlloc_v2(out, bytes) : 1;
}

int cuMemFreeAsync(uint64_t address, void *stream)
{
	(void)stream;
	return address == 0xbad ? 1 : 0;
}

int cuMemAllocAsync(uint64_t *out, size_t bytes, void *stream)
{
	(void)stream;
	return cuMemAlloc_v2(out, bytes);
}

int cuMemAllocAsync_ptsz(uint64_t *out, size_t bytes, void *stream)
{
	(void)stream;
	return cuMemAlloc_v2(out, bytes);
}

/* The 32-bit entry point of CUDA 2: of another ABI, so nobody may replace it. */
int cuMemAlloc(unsigned *out, unsigned bytes)
{
	(void)bytes;
	*out = 1;
	return 0;
}

int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	*pfn = NULL;
	if (!*symbol || !strcmp(symbol, "cuGetProcAddress"))
		*pfn = (void *)cuGetProcAddress_v2;
	else if (!strcmp(symbol, "cuMemAlloc"))
		*pfn = version >= 3020 ? (void *)cuMemAlloc_v2 : (void *)cuMemAlloc;
	else if (!strcmp(symbol, "cuMemAllocAsync"))
		*pfn = flags & 2 ? (void *)cuMemAllocAsync_ptsz : (void *)cuMemAllocAsync;
	else if (!strcmp(symbol, "cuDeviceGet"))
		*pfn = (void *)cuDeviceGet;
	if (status)
		*status = *pfn ? 0 : 1;
	return *pfn || !*symbol ? 0 : 500;
}
