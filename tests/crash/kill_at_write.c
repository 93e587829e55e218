/* SPDX-License-Identifier: MIT */
/*
 * A preload library that kills its process at a chosen write to a trace.
 *
 * KILL_AT_WRITE=N counts writes to files whose name ends in ".vtr", from 0; at number N the process gets
 * SIGKILL, as KILL_HOW says: `before` any byte is written, in the `middle` (half of the bytes are written),
 * or `after` all of them are. The next `before` is thereby also the moment after the recorder has moved on.
 *
 * With KILL_IN=next only writes to a file count that is to take a trace's place, and then renames: number N is the
 * rename (without a middle) that follows so many.
 */
#include "descriptor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool killed_in_next(void)
{
	const char *in = getenv("KILL_IN");

	return in && strcmp(in, "next") == 0;
}

/* Is there a trace of that name, without the .new? */
static bool access_trace(int folder, const char *path)
{
	char trace[PATH_MAX];

	snprintf(trace, sizeof(trace), "%.*s", (int)strlen(path) - 4, path);
	return faccessat(folder, trace, F_OK, 0) == 0;
}

/* So is named a trace until its header and first definitions are in it, and what is to take its place. */
static bool is_trace(int fd)
{
	char path[PATH_MAX];
	bool is_new;

	if (!path_of_descriptor(fd, path, sizeof(".vtr.new") - 1))
		return false;
	is_new = !strcmp(path + strlen(path) - 8, ".vtr.new");
	if (killed_in_next())
		return is_new && access_trace(AT_FDCWD, path);
	return is_new || !strcmp(path + strlen(path) - 4, ".vtr");
}

static bool counts(void)
{
	static _Atomic long nr_writes;
	const char *at = getenv("KILL_AT_WRITE");

	return at && atomic_fetch_add(&nr_writes, 1) == atol(at);
}

static bool is_the_one(int fd)
{
	return is_trace(fd) && counts();
}

static bool killed_when(const char *how)
{
	const char *wanted = getenv("KILL_HOW");

	return wanted && strcmp(wanted, how) == 0;
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	bool here = is_the_one(fd);
	ssize_t written;

	if (here && killed_when("before"))
		die();
	if (here && killed_when("middle"))
		bytes /= 2;
	written = syscall(SYS_write, fd, data, bytes);
	if (here)
		die();
	return written;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
	bool here = is_the_one(fd);
	ssize_t written;

	if (here && killed_when("before"))
		die();
	if (here && killed_when("middle"))
		bytes /= 2;
	written = syscall(SYS_pwrite64, fd, data, bytes, offset);
	if (here)
		die();
	return written;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	return pwrite64(fd, data, bytes, offset);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	size_t len = strlen(from);
	bool here = killed_in_next() && len > 8 && !strcmp(from + len - 8, ".vtr.new") &&
		    access_trace(from_folder, from) && counts();
	int status;

	if (here && !killed_when("after"))
		die();
	status = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
	if (here)
		die();
	return status;
}

ssize_t writev(int fd, const struct iovec *parts, int nr_parts)
{
	bool here = is_the_one(fd);
	ssize_t written;

	if (here && killed_when("before"))
		die();
	if (here && killed_when("middle"))
		written = syscall(SYS_write, fd, parts[0].iov_base, parts[0].iov_len / 2);
	else
		written = syscall(SYS_writev, fd, parts, nr_parts);
	if (here)
		die();
	return written;
}
