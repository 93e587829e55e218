/* SPDX-License-Identifier: MIT */
/*
 * A preload library that stops a thread at a chosen place, for ever, and calls the program's halted() there.
 *
 * HALT_AT=call        in a driver's cuMemAlloc_v2 that is asked for HALT_BYTES
 * HALT_AT=record      where the recorder takes the time of an event, of the thread that halt_here() names
 * HALT_AT=write:N     in the recorder's write number N to its trace, before any byte of it
 * HALT_AT=middle:N    ... after half of it
 *
 * HALT_MS=N           not for ever: so long
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "halt.h"

static _Atomic long halted_thread;

void halt_here(void)
{
	halted_thread = syscall(SYS_gettid);
}

static void halt(void)
{
	void (*tell)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "halted");
	const char *ms = getenv("HALT_MS");

	if (tell)
		tell();
	do
		poll(NULL, 0, ms ? atoi(ms) : -1);
	while (!ms);
}

static bool halts_at(const char *place)
{
	const char *at = getenv("HALT_AT");

	return at && !strncmp(at, place, strlen(place));
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	int (*real)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");

	if (bytes == HALT_BYTES && halts_at("call"))
		halt();
	return real(out, bytes);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (halted_thread && halted_thread == syscall(SYS_gettid) && halts_at("record"))
		halt();
	return (int)syscall(SYS_clock_gettime, clock, ts);
}

/* The recorder's thread may have a descriptor table of its own: /proc/self would show another thread's. */
static bool is_trace(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	return len > 4 && !strncmp(path + len - 4, ".vtr", 4);
}

static bool is_the_write(int fd, const char *place)
{
	static _Atomic long nr;

	return halts_at(place) && is_trace(fd) && nr++ == atol(getenv("HALT_AT") + strlen(place));
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	if (is_the_write(fd, "write:"))
		halt();
	if (is_the_write(fd, "middle:")) {
		syscall(SYS_write, fd, data, bytes / 2);
		halt();
	}
	return syscall(SYS_write, fd, data, bytes);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
	if (is_the_write(fd, "write:"))
		halt();
	if (is_the_write(fd, "middle:")) {
		syscall(SYS_pwrite64, fd, data, bytes / 2, offset);
		halt();
	}
	return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	return pwrite64(fd, data, bytes, offset);
}
