/* SPDX-License-Identifier: MIT */
/*
 * An interpreter by its version's text alone: impostor LIBSTACKPROBE VERSION. Prints what the stack capture says of it.
 */
#include <dlfcn.h>
#include <stdio.h>

static const char *version;

const char *Py_GetVersion(void);
int Py_IsInitialized(void);

const char *Py_GetVersion(void)
{
	return version;
}

int Py_IsInitialized(void)
{
	return 1;
}

int main(int argc, char **argv)
{
	void *probe;

	if (argc != 3)
		return 2;
	version = argv[2];
	probe = dlopen(argv[1], RTLD_NOW);
	if (!probe) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	((void (*)(void))dlsym(probe, "probe_start"))();
	puts(((const char *(*)(void))dlsym(probe, "probe_support"))());
	return 0;
}
