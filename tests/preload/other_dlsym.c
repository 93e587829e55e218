/* SPDX-License-Identifier: MIT */
/* A third party's preload that wraps dlsym the usual, careless way: its own frame is the caller. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!real)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return real ? real(handle, name) : NULL;
}
