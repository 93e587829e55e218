/* SPDX-License-Identifier: MIT */
/*
 * open LIBRARY FUNCTION [deep]: loads a library, with RTLD_DEEPBIND if `deep` says so, calls a function of it with a
 * null pointer and prints the result. With -DSTATIC it calls the linked cudaFree instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*function)(void *) = NULL;
#ifdef STATIC
	extern int cudaFree(void *);

	(void)argc;
	(void)argv;
	function = cudaFree;
#else
	void *h = argc > 2 ? dlopen(argv[1], RTLD_NOW | (argc > 3 ? RTLD_DEEPBIND : 0)) : NULL;

	if (h)
		*(void **)&function = dlsym(h, argv[2]);
#endif
	printf("%d\n", function ? function(NULL) : -1);
	return 0;
}
