/* SPDX-License-Identifier: MIT */
/* Memory, time and waiting for code that may use neither the program's malloc nor its locks. */
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose.h"

/*
 * A program that locks all its memory, also what it has yet to map (mlockall), means its own memory, but pages of ours
 * that are never used would be taken and locked, too. So they are mapped without access, and unlocked while nothing can
 * be in them yet.
 */
void *ip_map_file(size_t bytes, int flags, int fd, off_t offset)
{
	void *p = mmap(NULL, bytes, PROT_NONE, flags, fd, offset);

	if (p == MAP_FAILED)
		return NULL;
	munlock(p, bytes);
	if (mprotect(p, bytes, PROT_READ | PROT_WRITE)) {
		munmap(p, bytes);
		return NULL;
	}
	madvise(p, bytes, MADV_DONTFORK);
	return p;
}

void *ip_map(size_t bytes)
{
	return ip_map_file(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void ip_unmap(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

uint64_t ip_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Not nanosleep(3): that is a cancellation point, and a hook must not be one. */
void ip_pause(uint64_t ns)
{
	struct timespec ts = { 0, (long)ns };

	syscall(SYS_nanosleep, &ts, NULL);
}

bool ip_has_main_ended(unsigned max_others)
{
	char path[64], target[1];
	struct stat st;

	if (stat("/proc/self/task", &st) || st.st_nlink - 2 - 1 > max_others)
		return false;
	/* A thread that has ended has no memory any more, and so no program. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/exe", (int)getpid());
	return readlink(path, target, sizeof(target)) < 0 && errno == ENOENT;
}

void ip_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct timespec ts = { (time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u) };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

void ip_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The calling thread's locks, and its signal mask before the first. */
static __thread struct {
	unsigned nr;
	uint64_t mask;
} held;

/* The system call itself: the C library's keeps its own two signals out, and one of them cancels threads. */
static void mask_signals(const uint64_t *mask, uint64_t *old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, old, sizeof(*mask));
}

/* 0 free, 1 held, 2 held and somebody waits: the three-state futex lock of Drepper's "Futexes Are Tricky". */
void ip_lock(_Atomic uint32_t *word)
{
	static const uint64_t all = UINT64_MAX;
	uint32_t free_word = 0;

	if (!held.nr)
		mask_signals(&all, &held.mask);
	held.nr++;
	if (atomic_compare_exchange_strong(word, &free_word, 1))
		return;
	while (atomic_exchange(word, 2) != 0)
		ip_futex_wait(word, 2, 1000000000u);
}

void ip_unlock(_Atomic uint32_t *word)
{
	if (atomic_exchange(word, 0) == 2)
		ip_futex_wake(word);
	if (!--held.nr)
		mask_signals(&held.mask, NULL);
}
