/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 of which somebody asks only whether there is a GPU. With -DHANGS it never answers, with -DCRASHES it
 * crashes, with -DNONE it says that there is none, as NVIDIA's own does on a machine without.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned flags)
{
#ifdef HANGS
	for (;;)
		pause();
#endif
#ifdef CRASHES
	abort();
#endif
#ifdef NONE
	return 100;
#endif
	return flags ? 1 : 0;
}

int cuDeviceGetCount(int *nr)
{
	*nr = 1;
	return 0;
}

int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
	strncpy(name, "Answering GPU", (size_t)size);
	return device;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = (size_t)8 << 30;
	return device;
}
