/* SPDX-License-Identifier: MIT */
/* Finding NVIDIA's libraries and their functions. */
#include "analyzer/calibrate/libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* GLOBAL: cuDNN looks for cuBLAS among what is loaded. */
static void *open_file(const char *name, const char *venv)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
	char pattern[PATH_MAX];
	glob_t found;

	if (handle || !venv)
		return handle;
	if (snprintf(pattern, sizeof(pattern), "%s/lib/python3*/site-packages/nvidia/*/lib/%s", venv, name) >=
	    (int)sizeof(pattern))
		return NULL;
	if (!glob(pattern, 0, NULL, &found)) {
		for (size_t i = 0; !handle && i < found.gl_pathc; i++)
			handle = dlopen(found.gl_pathv[i], RTLD_LAZY | RTLD_GLOBAL);
	}
	globfree(&found);
	return handle;
}

/* The first of NAMES that opens, or NULL. */
static void *open_library(const char *const *names, const char *venv)
{
	void *handle = NULL;

	for (; !handle && *names; names++)
		handle = open_file(*names, venv);
	return handle;
}

static void *function(void *library, const char *name)
{
	void *address = dlsym(RTLD_DEFAULT, name);

	return address || !library ? address : dlsym(library, name);
}

void libraries_find(struct libraries *l, const char *venv)
{
	memset(l, 0, sizeof(*l));
	/* The driver first: the others load it. A preload may stand in for a library without a file here. */
#define LIBRARY(id, ...)                                                                                     \
	void *id##_library = open_library((const char *const[]){ __VA_ARGS__, NULL }, venv);                 \
                                                                                                             \
	l->has_##id = true;
#define FUNCTION(id, name)                                                                                   \
	*(void **)&l->name = function(id##_library, #name);                                                  \
	l->has_##id = l->has_##id && l->name;
#include "analyzer/calibrate/libraries.def"
#undef LIBRARY
#undef FUNCTION
}
