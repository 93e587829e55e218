/* SPDX-License-Identifier: MIT */
/* A preload: the machine has the real driver's device node /dev/nvidiactl. */
#include <dlfcn.h>
#include <string.h>

int access(const char *path, int mode)
{
	int (*next)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");

	return strcmp(path, "/dev/nvidiactl") ? next(path, mode) : 0;
}
