/* SPDX-License-Identifier: MIT */
/*
 * What other code would have asked for: requests of one device that are smaller, larger or not made, blocks that are given
 * back early and made again, and requests that nobody made. All by the ordinals of the recording's events; what they mean is
 * known to whoever makes them (changes/, advice/). The allocator's model takes them while the events pass by once, and then no
 * more (whatif.h); by bytes alone a part of a job is tried with them as often as one likes (changes/editpeak.h).
 * Single-threaded.
 */
#ifndef VT_EDITS_H
#define VT_EDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In addresses of blocks that the recording does not have: no driver gives out such ones. Beside these, a step's birth. */
#define EDITS_ADDRESS_APART (1ull << 63)
#define EDITS_ADDRESS_MORE (3ull << 62)

/* Of the block that an event has allocated. */
struct edit {
	uint64_t birth; /* ordinal of the event */
	bool is_sized;  /* what counts is bytes, not the factor */
	double factor;  /* of the bytes asked for; 0: the request is not made */
	uint64_t bytes; /* asked for instead; 0: the request is not made */

	/* private: how it is asked for, and where it is */
	uint64_t least, most; /* bytes */
	uint32_t private_id, slot;
	uint16_t stream;
};

enum edit_kind {
	EDIT_FREE,      /* the block is given back before its time */
	EDIT_AGAIN,     /* it is asked for again, and given back when it was in the recording */
	EDIT_APART,     /* one like it, which had its time, is asked for once more */
	EDIT_APART_FREE, /* that one is given back */
	EDIT_MORE,      /* something is asked for that the recording does not have */
	EDIT_MORE_FREE, /* that is given back */
};

/* What the recording does not have. */
struct edit_more {
	uint64_t bytes;
	uint32_t slot; /* private: where it is */
};

/* Something that is done before an event. */
struct edit_step {
	uint64_t at;    /* ordinal of the event */
	uint32_t order; /* of several before one event, the smaller first */
	enum edit_kind kind;
	uint64_t birth; /* of the block; of EDIT_MORE its number in struct edits' more */
};

/* Zero it but for path and device. */
struct edits {
	const char *path; /* of the trace */
	uint32_t device;
	struct edit *edit; /* by birth */
	size_t nr, room;
	struct edit_step *step; /* in the order in which they are done, after edits_close() */
	size_t nr_steps, steps_room;
	struct edit_more *more;
	size_t nr_more, more_room;
	size_t next; /* step: private */
};

/* An edit of a block, or of the request that failed at an event: one for each. */
void edits_add(struct edits *e, uint64_t birth, double factor);
void edits_resize(struct edits *e, uint64_t birth, uint64_t bytes);

/* The edit of an event, of closed edits; NULL: it has none. */
struct edit *edits_find(const struct edits *e, uint64_t birth);

/* Done before the event `at`, after what was added for it so far. */
void edits_step(struct edits *e, uint64_t at, enum edit_kind kind, uint64_t birth);

/*
 * So many bytes are asked for before the event `from`, and given back before the event `to`; TFMT_NO_ORDINAL: never. Nothing,
 * where that is no time, or no bytes.
 */
void edits_more(struct edits *e, uint64_t from, uint64_t to, uint64_t bytes);

/* They are asked for before the event `at`, and given back at once. */
void edits_moment(struct edits *e, uint64_t at, uint64_t bytes);

/* Nothing is added any more: each block that a step is of has an edit. */
void edits_close(struct edits *e);
void edits_release(struct edits *e);

/* The bytes that are asked for instead of `bytes`. */
uint64_t edit_bytes(const struct edit *e, uint64_t bytes);

#endif
