/* SPDX-License-Identifier: MIT */
/*
 * Looks functions up in every way that CUDA's libraries do, under the recorder, and prints what it finds:
 * `wrapped` for a function inside libinterpose.so, `real` for one outside, `none` for NULL.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*get_proc_address)(const char *, void **, int, uint64_t, int *);

static void show(const char *what, void *p)
{
	Dl_info info;

	if (!p)
		printf("%s: none\n", what);
	else if (dladdr(p, &info) && strstr(info.dli_fname, "libinterpose.so"))
		printf("%s: wrapped %s\n", what, info.dli_sname ? info.dli_sname : "?");
	else
		printf("%s: real\n", what);
}

static void show_entry(get_proc_address get, const char *name, int version, uint64_t flags)
{
	char what[128];
	void *p = NULL;

	snprintf(what, sizeof(what), "get %s %d %d", name, version, (int)flags);
	if (get(name, &p, version, flags, NULL))
		p = NULL;
	show(what, p);
}

static void without_driver(void)
{
	show("default cuInit", dlsym(RTLD_DEFAULT, "cuInit"));
	show("default cuMemAlloc_v2", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	show("default cudaMalloc", dlsym(RTLD_DEFAULT, "cudaMalloc"));
	show("default cuptiSubscribe", dlsym(RTLD_DEFAULT, "cuptiSubscribe"));
	show("default ncclAllReduce", dlsym(RTLD_DEFAULT, "ncclAllReduce"));
	show("next malloc", dlsym(RTLD_NEXT, "malloc"));
	dlerror();
	printf("missing: %s\n", dlsym(RTLD_DEFAULT, "no_such_function_anywhere") ? "found" : "none");
	printf("dlerror: %s\n", dlerror() ? "set" : "lost");
	dlsym(RTLD_DEFAULT, "malloc");
	printf("dlerror after success: %s\n", dlerror() ? "set" : "clear");
}

static void with_driver(const char *path)
{
	void *h = dlopen(path, RTLD_NOW), *self = NULL;
	get_proc_address get = (get_proc_address)dlsym(h, "cuGetProcAddress_v2");
	int (*alloc)(uint64_t *, size_t);
	uint64_t address = 0;

	show("handle cuGetProcAddress_v2", (void *)get);
	show("handle cuMemAlloc_v2", dlsym(h, "cuMemAlloc_v2"));
	show("handle cuMemAlloc", dlsym(h, "cuMemAlloc"));
	show("handle cuDeviceGet", dlsym(h, "cuDeviceGet"));
	show("handle cuMemHostAlloc", dlsym(h, "cuMemHostAlloc"));
	show_entry(get, "", 0, 0);
	show_entry(get, "cuGetProcAddress", 12000, 0);
	get("cuGetProcAddress", &self, 12000, 0, NULL);
	get = (get_proc_address)self;
	show_entry(get, "cuMemAlloc", 3020, 0);
	show_entry(get, "cuMemAlloc", 2000, 0);
	show_entry(get, "cuMemAlloc", 3020, 2);
	show_entry(get, "cuMemAllocAsync", 11020, 0);
	show_entry(get, "cuMemAllocAsync", 11020, 2);
	show_entry(get, "cuDeviceGet", 2000, 0);
	show_entry(get, "cuNoSuchFunction", 12000, 0);
	alloc = (int (*)(uint64_t *, size_t))dlsym(h, "cuMemAlloc_v2");
	printf("too much: %d\n", alloc(&address, (size_t)2 << 30));
	printf("enough: %d", alloc(&address, 1000));
	printf(" %s\n", address ? "address" : "nothing");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		with_driver(argv[1]);
	else
		without_driver();
	return 0;
}
