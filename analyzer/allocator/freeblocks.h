/* SPDX-License-Identifier: MIT */
/*
 * Free blocks in order of size, and of address where sizes are equal: what PyTorch's allocator searches for the smallest
 * block that is large enough. Finding, adding and removing cost the logarithm of their number. Single-threaded.
 */
#ifndef VT_FREEBLOCKS_H
#define VT_FREEBLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct freeblocks_entry {
	uint64_t size, address;
	uint32_t block; /* the caller's number of it */
};

struct freeblocks_run;

/* Zero it. */
struct freeblocks {
	struct freeblocks_run **run; /* in order, none of them empty */
	size_t nr_runs, room;
};

/* A place among them; run == nr_runs: after the last. Valid until one is added or removed. */
struct freeblocks_place {
	size_t run;
	uint32_t at;
};

void freeblocks_release(struct freeblocks *f);

/* No two may have the same size and address. */
void freeblocks_add(struct freeblocks *f, struct freeblocks_entry e);

/* Remove the one with this size and address, which is there. */
void freeblocks_remove(struct freeblocks *f, uint64_t size, uint64_t address);

/* The first that is not before (size, address). */
struct freeblocks_place freeblocks_from(const struct freeblocks *f, uint64_t size, uint64_t address);

/* What is at a place; NULL after the last. */
const struct freeblocks_entry *freeblocks_at(const struct freeblocks *f, struct freeblocks_place p);

/* The place after one that is not after the last. */
struct freeblocks_place freeblocks_next(const struct freeblocks *f, struct freeblocks_place p);

/* The largest; NULL if there is none. */
const struct freeblocks_entry *freeblocks_last(const struct freeblocks *f);

#endif
