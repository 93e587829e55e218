/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress for versions of CUDA up to one that nobody has seen; prints what answers each. */
#include <dlfcn.h>
#include <stdio.h>

typedef int get_fn(const char *name, void **function, int version, unsigned long long flags, int *status);

int main(void)
{
	static const int versions[] = { 11030, 12000, 13000, 13020, 14000 };
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *function;
	get_fn *get = driver ? (get_fn *)dlsym(driver, "cuGetProcAddress_v2") : NULL;
	int status, found;

	for (unsigned i = 0; get && i < sizeof(versions) / sizeof(*versions); i++) {
		function = NULL;
		found = get("cuMemAlloc", &function, versions[i], 0, &status);
		printf("%d %d %d %s\n", versions[i], found, status, function ? "found" : "nothing");
	}
	return !get;
}
