/* SPDX-License-Identifier: MIT */
/*
 * Ranges of addresses that a process has from the driver: segments, and the reserved ranges of expandable ones. PyTorch
 * gives all blocks of one range to one pool, so that a range tells the pool of a block. Single-threaded.
 */
#ifndef VT_ARENAS_H
#define VT_ARENAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena {
	uint64_t address, size;
	uint32_t private_id; /* once used: of its pool */
	uint16_t stream;     /* likewise */
	bool small;          /* likewise */
	bool reserved;       /* addresses alone: for an expandable segment */
	bool used;           /* a tensor has been in it */
};

/* Zero it. */
struct arenas {
	struct arena *arena; /* by address */
	size_t nr, room;
};

void arenas_release(struct arenas *a);

/* A range came; what is known of it is gone with it. */
void arenas_add(struct arenas *a, uint64_t address, uint64_t size, bool reserved);
void arenas_remove(struct arenas *a, uint64_t address);

/* The range that holds an address, NULL if none does. Valid until the next change. */
struct arena *arenas_find(const struct arenas *a, uint64_t address);

#endif
