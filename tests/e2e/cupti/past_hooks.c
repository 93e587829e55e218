/* SPDX-License-Identifier: MIT */
/*
 * Allocates with the runtime, and through a plugin that the recorder's hooks do not reach: it is loaded with
 * RTLD_DEEPBIND, and so looks the driver up with the C library's own dlsym.
 *
 * usage: past_hooks PLUGIN     built twice: as this program, and with -DPLUGIN as the plugin
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#define MIB(n) ((size_t)(n) << 20)

#ifdef PLUGIN
typedef int alloc_function(uint64_t *, size_t);
typedef int free_function(uint64_t);

/* Two allocations, the free of one of them, and one that does not fit. */
void take(uint64_t address[2]);
void take(uint64_t address[2])
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	alloc_function *take_some = (alloc_function *)dlsym(driver, "cuMemAlloc_v2");
	free_function *give_back = (free_function *)dlsym(driver, "cuMemFree_v2");
	uint64_t none;

	if (take_some(&address[0], MIB(48)) || take_some(&address[1], MIB(16)) || give_back(address[1]) ||
	    !take_some(&none, SIZE_MAX / 4))
		address[0] = 0;
}
#else
#include <cuda_runtime_api.h>

int main(int argc, char **argv)
{
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
	void (*take)(uint64_t *) = plugin ? (void (*)(uint64_t *))dlsym(plugin, "take") : NULL;
	uint64_t address[2] = { 0 };
	void *ours;

	if (!take || cudaMalloc(&ours, MIB(10)))
		return 2;
	take(address);
	if (cudaFree(ours))
		return 3;
	printf("%#llx %#llx\n", (unsigned long long)address[0], (unsigned long long)address[1]);
	return address[0] ? 0 : 4;
}
#endif
