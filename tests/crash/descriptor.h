/* SPDX-License-Identifier: MIT */
/* What file a descriptor is of, for the libraries that disturb a recorder. */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Its path, at least `least` characters long; false if it has none. The recorder's thread has a descriptor table of its
 * own: /proc/self would show another thread's.
 */
static inline bool path_of_descriptor(int fd, char path[PATH_MAX], ssize_t least)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX - 1);
	if (len < 0 || len < least)
		return false;
	path[len] = '\0';
	return true;
}

#endif
