/* SPDX-License-Identifier: MIT */
/*
 * driver_again RUNTIME: a runtime that finds no GPU may close the driver; the program opens it again, at other
 * addresses, because something else lies at the old ones by then. Prints what the driver's functions return each time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>

static void use_driver(void)
{
	struct link_map *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
	int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(driver, "cuMemAlloc_v2");
	int (*get)(const char *, void **, int, unsigned long, int *);
	char *base = (char *)driver->l_addr;
	void *p = NULL;
	int status = -1, rc;

	*(void **)&get = dlsym(driver, "cuGetProcAddress_v2");
	printf("cuInit %d", init(0));
	printf(", cuMemAlloc %d", alloc(&p, 1 << 20));
	rc = get("cuMemAlloc", (void **)&alloc, 3020, 0, &status);
	printf(", found %d %d, again %d\n", rc, status, alloc(&p, 1 << 20));
	dlclose(driver);
	if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
		mmap(base, 16 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

int main(int argc, char **argv)
{
	void *runtime = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*count)(int *) = runtime ? (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount") : NULL;
	int nr = -1;

	for (int i = 0; count && i < 3; i++) {
		printf("cudaGetDeviceCount %d\n", count(&nr));
		use_driver();
	}
	return 0;
}
