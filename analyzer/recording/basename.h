/* SPDX-License-Identifier: MIT */
/* Names of files without their folders. */
#ifndef VT_BASENAME_H
#define VT_BASENAME_H

#include <string.h>

/* What follows the last '/' of a path, all of it if there is none. Points into the path. */
static inline const char *basename_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
