/* SPDX-License-Identifier: MIT */
/*
 * What keeps cached memory from being used otherwise: the live blocks of segments that are otherwise free, by the
 * place that allocated them.
 *
 * A *unit* is what the allocator can give back to the driver at once: a segment, or one page of an expandable one.
 */
#ifndef VT_BLOCKERS_H
#define VT_BLOCKERS_H

#include "analyzer/allocator/segments.h"
#include "analyzer/replay/replay.h"

/* What of a live block lies in one unit. */
struct blockers_block {
	uint64_t unit, unit_bytes; /* address and size */
	uint64_t size, since_ns;
	uint32_t group; /* of the process's books */
};

/* The live blocks of one moment, by unit. */
struct blockers_moment {
	struct blockers_block *block;
	size_t nr_blocks, room;
};

/* Fill it anew with what is live now, or was at the mark. */
void blockers_take(struct blockers_moment *moment, const struct segments *s, bool at_mark);
void blockers_moment_release(struct blockers_moment *moment);

/* All blockers that one place allocated. */
struct blocker {
	uint32_t python_stack, native_stack; /* of the largest group */
	bool known;
	bool of_pass; /* a forward or backward pass made that group: when it comes follows from what it computes */
	struct stack_frame site; /* its strings belong to the replay */
	uint64_t blocks, bytes;
	uint64_t largest_bytes;	 /* of its blocks */
	uint64_t oldest_ns;	 /* when the first of them was allocated */
	uint64_t units;		 /* in which they are */
	uint64_t kept_bytes;	 /* free there: all of it if they are alone, else their share by size */
	uint64_t alone_units;	 /* in which nothing else is live */
	uint64_t first_unit;	 /* address of the first */
	uint64_t last_unit;	 /* while they are grouped: the latest */
};

struct blockers {
	struct blocker *blocker; /* most kept first */
	size_t nr_blockers;
	bool is_half_free; /* of units of which at least half is free; else of all, as most of what is stuck is elsewhere */
};

/*
 * Group the blocks of a moment by place, of units of which at least half is free, or of all where most of what is stuck
 * lies in others. blockers_release() is needed.
 */
void blockers_find(struct blockers *b, const struct blockers_moment *moment, const struct replay *m,
		   struct replay_process *process);
void blockers_release(struct blockers *b);

#endif
