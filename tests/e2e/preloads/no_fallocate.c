/* SPDX-License-Identifier: MIT */
/*
 * A file system that promises no space: fallocate() fails for files below NO_FALLOCATE. Threads may have descriptors
 * of their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	const char *below = getenv("NO_FALLOCATE");
	char link[64], path[PATH_MAX] = "";

	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0 && below && !strncmp(path, below, strlen(below))) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}
