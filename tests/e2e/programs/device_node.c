/* SPDX-License-Identifier: MIT */
/* A preload: the machine has the real driver's device node /dev/nvidia0. */
#include <dlfcn.h>
#include <string.h>

int access(const char *path, int mode)
{
	int (*next)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");

	return strcmp(path, "/dev/nvidia0") ? next(path, mode) : 0;
}
