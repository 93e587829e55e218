/* SPDX-License-Identifier: MIT */
/*
 * A preload library in which the storage of a recording fails: calls on files whose path has ".vtr" or ".ring" in it.
 *
 * FAIL_CALL names the function, FAIL_AT=N the first call of it that fails (from 0), FAIL_TIMES=N how many do from
 * there on (absent: all), FAIL_WITH the errno as a number, or `short`: a write then takes half of its bytes, or `slow`:
 * it takes a second. With FAIL_IN=trace only writes to a trace fail, and only while another file is being written that
 * is to take its place: the two have no room together. FAIL_CALL=fdsync: the kernel could not bring a file to the disk,
 * which is heard as soon as it is asked for: else a busy machine decides whether that comes in time.
 */
#include "descriptor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_ours(const char *path)
{
	return path && (strstr(path, ".vtr") || strstr(path, ".ring"));
}

static bool is_our_descriptor(int fd)
{
	char path[PATH_MAX];

	return path_of_descriptor(fd, path, 0) && is_ours(path);
}

/* Is this a trace, and the one that will take its place beside it? */
static bool is_chosen(int fd)
{
	const char *in = getenv("FAIL_IN");
	char path[PATH_MAX];

	if (!in)
		return true;
	return path_of_descriptor(fd, path, 0) && !strcmp(path + strlen(path) - 4, ".vtr") &&
	       !access(strcat(path, ".new"), F_OK);
}

static bool is_wanted(const char *call)
{
	const char *wanted = getenv("FAIL_CALL");

	return wanted && !strcmp(wanted, call);
}

/* Whether this call is to fail; errno is set then. */
static bool fails(const char *call)
{
	static _Atomic long nr_calls;
	const char *at = getenv("FAIL_AT"), *times = getenv("FAIL_TIMES"), *with = getenv("FAIL_WITH");
	long number, first;

	if (!is_wanted(call))
		return false;
	number = atomic_fetch_add(&nr_calls, 1);
	first = at ? atol(at) : 0;
	if (number < first || (times && number >= first + atol(times)))
		return false;
	errno = with ? atoi(with) : EIO;
	return true;
}

/* A call that fails() does after all. Returns false if it does not. */
static bool succeeds(size_t *bytes)
{
	const char *with = getenv("FAIL_WITH");

	if (with && !strcmp(with, "short"))
		*bytes = (*bytes + 1) / 2;
	else if (with && !strcmp(with, "slow"))
		sleep(1);
	else
		return false;
	return true;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
	if (is_our_descriptor(fd) && is_chosen(fd) && fails("pwrite") && !succeeds(&bytes))
		return -1;
	return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	return pwrite64(fd, data, bytes, offset);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	if (is_our_descriptor(fd) && fails("write") && !succeeds(&bytes))
		return -1;
	return syscall(SYS_write, fd, data, bytes);
}

int ftruncate64(int fd, off64_t length)
{
	return is_our_descriptor(fd) && fails("ftruncate") ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate(int fd, off_t length)
{
	return ftruncate64(fd, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
	return is_our_descriptor(fd) && fails("fallocate") ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	return fallocate64(fd, mode, offset, length);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
	return (flags & O_CREAT) && is_ours(path) && fails("open") ? -1 :
								      (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name, ...)                                                                                     \
	{                                                                                                   \
		va_list more;                                                                               \
		mode_t mode;                                                                                \
                                                                                                            \
		va_start(more, flags);                                                                      \
		mode = va_arg(more, mode_t);                                                                \
		va_end(more);                                                                               \
		return open_at(__VA_ARGS__, path, flags, mode);                                             \
	}
int open(const char *path, int flags, ...) OPEN(open, AT_FDCWD)
int open64(const char *path, int flags, ...) OPEN(open64, AT_FDCWD)
int openat(int folder, const char *path, int flags, ...) OPEN(openat, folder)
int openat64(int folder, const char *path, int flags, ...) OPEN(openat64, folder)

int mkdir(const char *path, mode_t mode)
{
	return is_ours(path) && fails("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
	return is_ours(path) && fails("mkdir") ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

int rename(const char *from, const char *to)
{
	return is_ours(to) && fails("rename") ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	return is_ours(to) && fails("rename") ? -1 :
						(int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int link(const char *from, const char *to)
{
	return is_ours(to) && fails("link") ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
	if (is_our_descriptor(to_folder) && fails("link"))
		return -1;
	return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
	if (is_ours(to) && fails("rename"))
		return -1;
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

void *mmap64(void *place, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
	if (fd >= 0 && (flags & MAP_SHARED) && is_our_descriptor(fd) && fails("mmap"))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, place, bytes, protection, flags, fd, offset);
}

void *mmap(void *place, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return mmap64(place, bytes, protection, flags, fd, offset);
}

/* Of those that go through here only the end of an fdatasync that nobody waited for is of interest. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long argument[6], result;
	va_list more;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(more, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(more, long);
	va_end(more);
	if (number == SYS_io_getevents && is_wanted("fdsync")) {
		argument[1] = 1; /* at least, however long that takes */
		argument[4] = 0;
	}
	result = real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
	if (number == SYS_io_getevents && result == 1 && fails("fdsync"))
		((struct io_event *)argument[3])->res = -errno;
	return result;
}
