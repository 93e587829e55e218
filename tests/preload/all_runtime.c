/* SPDX-License-Identifier: MIT */
/*
 * A libcudart.so.13 of nothing but its doors to the driver, which it finds as NVIDIA's does; with -DPAST_RECORDER by
 * the C library's own dlsym, as one that was loaded with RTLD_DEEPBIND.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*get_proc_address)(const char *, void **, int, uint64_t, int *);

static get_proc_address driver(void)
{
	static get_proc_address get;
	void *h = get ? NULL : dlopen("libcuda.so.1", RTLD_NOW), *self = NULL;
	void *(*look_up)(void *, const char *) = dlsym;

#ifdef PAST_RECORDER
	*(void **)&look_up = dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym");
#endif
	if (h)
		get = (get_proc_address)look_up(h, "cuGetProcAddress_v2");
	if (h && get && !get("cuGetProcAddress", &self, 12000, 0, NULL))
		get = (get_proc_address)self;
	return get;
}

int cudaGetDriverEntryPointByVersion(const char *symbol, void **pfn, unsigned version, uint64_t flags, int *status);
int cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pfn, unsigned version, uint64_t flags, int *status);
int cudaGetDriverEntryPoint(const char *symbol, void **pfn, uint64_t flags, int *status);
int cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pfn, uint64_t flags, int *status);

int cudaGetDriverEntryPointByVersion(const char *symbol, void **pfn, unsigned version, uint64_t flags, int *status)
{
	return driver()(symbol, pfn, (int)version, flags, status);
}

int cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pfn, unsigned version, uint64_t flags, int *status)
{
	return driver()(symbol, pfn, (int)version, flags ? flags : 2, status);
}

int cudaGetDriverEntryPoint(const char *symbol, void **pfn, uint64_t flags, int *status)
{
	return driver()(symbol, pfn, 13000, flags, status);
}

int cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pfn, uint64_t flags, int *status)
{
	return driver()(symbol, pfn, 13000, flags ? flags : 2, status);
}
