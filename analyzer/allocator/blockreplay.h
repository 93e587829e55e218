/* SPDX-License-Identifier: MIT */
/*
 * What would have been allocated: blocks with the events that they would have lived between, and the most that they
 * would have held together.
 *
 * A *time* is an event's ordinal times REPLAY_SCALE, so that what would have happened between two events has a time,
 * too. A block is there from its first time up to, but not with, its last.
 */
#ifndef VT_BLOCKREPLAY_H
#define VT_BLOCKREPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_SCALE 4
#define REPLAY_END UINT64_MAX
#define REPLAY_BLOCK 512 /* PyTorch's allocator rounds to multiples of it */

struct replay_change {
	uint64_t time;
	int64_t bytes;
};

/* Zero it but for from and to: times before and after them do not count. */
struct replay {
	uint64_t from, to;
	struct replay_change *change;
	size_t nr, room;
	bool failed; /* no memory: the peak is 0 */
};

void replay_add(struct replay *r, uint64_t from, uint64_t to, uint64_t bytes);

/* The most at any time; of what was added so far. */
uint64_t replay_peak(struct replay *r);
void replay_release(struct replay *r);

/* A block of so many bytes as the allocator rounds it. */
static inline uint64_t replay_rounded(uint64_t bytes)
{
	return (bytes + REPLAY_BLOCK - 1) / REPLAY_BLOCK * REPLAY_BLOCK;
}

#endif
