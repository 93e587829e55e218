/* SPDX-License-Identifier: MIT */
/* Two users of NVML in one process, each with its own nvmlInit and nvmlShutdown; prints what each call answers. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = nvml ? dlsym(nvml, "nvmlInit_v2") : NULL;
	int (*with_flags)(unsigned) = nvml ? dlsym(nvml, "nvmlInitWithFlags") : NULL;
	int (*down)(void) = nvml ? dlsym(nvml, "nvmlShutdown") : NULL;
	int (*count)(unsigned *) = nvml ? dlsym(nvml, "nvmlDeviceGetCount_v2") : NULL;
	unsigned n = 0;

	if (!init || !with_flags || !down || !count)
		return 2;
	printf("before %d", count(&n));
	printf(" init %d", init());
	printf(" %d", with_flags(0));
	for (int i = 0; i < 2; i++) {
		printf(" down %d", down());
		printf(" count %d", count(&n));
	}
	printf(" down %d\n", down());
	return 0;
}
