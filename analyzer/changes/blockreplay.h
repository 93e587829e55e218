/* SPDX-License-Identifier: MIT */
/*
 * What would have been allocated: blocks with the events that they would have lived between, and the most that they
 * would have held together.
 *
 * A *time* is an event's ordinal times BLOCKREPLAY_SCALE, so that what would have happened between two events has a
 * time, too. A block is there from its first time up to, but not with, its last.
 */
#ifndef VT_BLOCKREPLAY_H
#define VT_BLOCKREPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCKREPLAY_SCALE (UINT64_C(1) << 20)
#define BLOCKREPLAY_END UINT64_MAX

struct blockreplay_delta {
	uint64_t time;
	int64_t bytes;
};

/* Zero it but for from and to: times before and after them do not count. */
struct blockreplay {
	uint64_t from, to;
	struct blockreplay_delta *delta;
	size_t nr, room;
};

void blockreplay_add(struct blockreplay *r, uint64_t from, uint64_t to, uint64_t bytes);

/* So many bytes more from a time on, or fewer: what was there before it, or will be gone. */
void blockreplay_change(struct blockreplay *r, uint64_t time, int64_t bytes);

/* The most at any time; of what was added so far. */
uint64_t blockreplay_peak(struct blockreplay *r);
void blockreplay_release(struct blockreplay *r);

#endif
