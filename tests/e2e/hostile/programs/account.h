/* SPDX-License-Identifier: MIT */
/*
 * An account that a program keeps of itself, in a file that outlives it: how many allocations and frees have come back,
 * what is live, and the most that was. A test compares a recording with it, however the program ended.
 */
#ifndef HOSTILE_ACCOUNT_H
#define HOSTILE_ACCOUNT_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct account {
	_Atomic uint64_t begun, allocs, frees, live, peak;
};

/* A new account of the calling process: FOLDER/PID. Ends the program if it cannot be had. */
static inline struct account *account_open(const char *folder)
{
	char path[4096];
	struct account *a;
	int fd;

	snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*a)))
		exit(9);
	a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (a == MAP_FAILED)
		exit(9);
	return a;
}

/* A call is about to be made. */
static inline void account_begin(struct account *a)
{
	atomic_fetch_add(&a->begun, 1);
}

static inline void account_alloc(struct account *a, uint64_t bytes)
{
	uint64_t live = atomic_fetch_add(&a->live, bytes) + bytes, peak = atomic_load(&a->peak);

	while (live > peak && !atomic_compare_exchange_weak(&a->peak, &peak, live))
		;
	atomic_fetch_add(&a->allocs, 1);
}

static inline void account_free(struct account *a, uint64_t bytes)
{
	atomic_fetch_sub(&a->live, bytes);
	atomic_fetch_add(&a->frees, 1);
}

#endif
