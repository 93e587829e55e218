/* SPDX-License-Identifier: MIT */
/*
 * The same blocks laid out by somebody who knows how long each will live: what no allocator that serves one request after
 * another can do, and so what its waste is measured against.
 *
 * Large blocks lie in one range of addresses: the largest first, each in the smallest gap that is free for all of its life,
 * else after whatever is there meanwhile ("greedy by size", Pisarchyk and Lee, arXiv:2001.03288). Small ones (up to 1 MiB) are
 * added by their bytes alone. It is no less than what was asked for at the peak. Single-threaded.
 */
#ifndef VT_IDEAL_H
#define VT_IDEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ideal_block;

/* Zero it. */
struct ideal {
	struct ideal_block *block; /* large ones, by birth */
	size_t nr, room;
	uint64_t *of_slot; /* 0: none; a large block's number + 1; a small one's bytes, with the top bit */
	size_t nr_slots;
	uint64_t time, small_bytes, small_peak;
};

/* A block comes to a slot, and goes. Bytes as asked for: blocks are multiples of 512. */
void ideal_alloc(struct ideal *i, uint32_t slot, uint64_t bytes);
void ideal_free(struct ideal *i, uint32_t slot);

/* All that is there goes. */
void ideal_reset(struct ideal *i);

/* Lay out what came: *bytes of memory are enough. false: there are too many blocks to try. */
bool ideal_place(struct ideal *i, uint64_t *bytes);
void ideal_release(struct ideal *i);

#endif
