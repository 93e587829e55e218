/* SPDX-License-Identifier: MIT */
/*
 * The memory of one device as a framework's caching allocator has cut it up: segments taken from the driver, in them
 * blocks, live or free, by address.
 *
 * A range of driver memory counts as a *segment* from the first tensor that lies in it; until then nobody knows
 * whose it is. A segment serves one *pool*: a stream, small or large blocks, and what is private to a graph. Free
 * neighbours of one segment are one block, as in PyTorch's allocator. With expandable segments a segment is a whole
 * reserved range of addresses, of which only some is mapped, page by page.
 *
 * Memory follows the number of live blocks; a change costs their logarithm. Single-threaded.
 */
#ifndef VT_SEGMENTS_H
#define VT_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENTS_SHARED 0		  /* the private pool that is none */
#define SEGMENTS_OTHER UINT32_MAX	  /* whose blocks were not given to whom they would have fitted */

enum segments_state {
	SEGMENTS_IDLE,	  /* of a range that no tensor lies in: not counted */
	SEGMENTS_FREE,
	SEGMENTS_LIVE,
	SEGMENTS_PENDING, /* freed, but another stream may still use it */
};

struct segments_block {
	uint64_t address, size;
	uint64_t requested; /* bytes asked for; 0 = not known */
	uint64_t since_ns;  /* when it was handed out */
	uint64_t max_free;  /* largest free block of the tree below this one */
	uint32_t left, right, priority;
	uint32_t segment;
	uint32_t group; /* the caller's: who allocated it */
	uint8_t state;
	uint64_t number; /* which block handed out it is, from 1 */
};

struct segments_pool {
	uint16_t stream;
	bool small;
	uint32_t private_id; /* SEGMENTS_SHARED, a graph's, or SEGMENTS_OTHER */
	uint64_t free_bytes;
	uint64_t whole_bytes; /* of those, in segments or pages that are wholly free */
};

struct segment {
	uint64_t address, size;	 /* of an expandable one: bytes mapped so far */
	uint64_t page_bytes;	 /* of an expandable one; 0 = it is no such */
	uint64_t grown_bytes;	 /* mapped since the latest block was handed out from it */
	uint64_t forced_bytes;	 /* taken although free blocks together would have done */
	uint32_t pool;
	uint32_t nr_blocks;	 /* live and pending */
	bool used;		 /* a tensor has been in it: it is the allocator's */
	bool gone;		 /* the slot is free */
};

/* Has somebody been given it, and may still use it? */
static inline bool segments_is_taken(const struct segments_block *b)
{
	return b->state == SEGMENTS_LIVE || b->state == SEGMENTS_PENDING;
}

/* A block as it was, with the segment in which it lay. */
struct segments_gone {
	struct segments_block block;
	struct segment segment;
};

struct segments_reservation {
	uint64_t address, size;
	uint32_t segment; /* + 1; 0 = nothing mapped yet */
};

struct segments {
	struct segments_block *block; /* [0] is none */
	uint32_t nr_blocks, free_block, root;
	size_t blocks_room;
	struct segment *segment;
	size_t segments_room;
	uint32_t nr_segments, free_segment; /* free_segment: index + 1 of a slot to be reused */
	struct segments_pool *pool;
	uint32_t nr_pools;
	size_t pools_room;
	struct segments_reservation *reservation;
	uint32_t nr_reservations;
	size_t reservations_room;
	uint32_t random;

	uint64_t number; /* blocks handed out */
	uint64_t mark;	 /* blocks handed out up to the mark */
	struct segments_gone *gone; /* blocks live at the mark that are not any more */
	size_t nr_gone, gone_room;

	uint64_t reserved_bytes;
	uint64_t live_bytes, pending_bytes, free_bytes;
	uint64_t whole_bytes;	    /* free, in segments or pages that are wholly free */
	uint64_t split_bytes;	    /* PyTorch's inactive_split_bytes: none of expandable segments */
	uint64_t held_bytes;	    /* of whole_bytes: private to graphs, which keep them */
	uint64_t requested_bytes;   /* of live and pending blocks whose request is known */
	uint64_t known_bytes;	    /* how large the blocks of requested_bytes are */
	uint64_t forced_bytes;	    /* of all segments */
	uint64_t unplaced_bytes;    /* of tensors in memory that was not seen being taken from the driver */
	uint32_t nr_used;	    /* segments, an expandable one counted once */
};

/* A block as it is handed out. */
struct segments_request {
	uint64_t address, size, requested, time_ns;
	uint32_t group;
	uint32_t private_id;
	uint16_t stream;
};

/* What handing out a block met. */
struct segments_outcome {
	uint64_t grown_bytes; /* taken from the driver for it; 0 = it was cached */
	uint64_t free_before; /* cached in its pool before, of that ... */
	uint64_t stuck_before; /* of free_before: in segments that live blocks kept */
	bool fitted;	      /* a single free block of the pool would have held it: it was not at hand, though */
	bool placed;
	uint32_t segment;
};

void segments_release(struct segments *s);

/* Driver memory came, one range at once or a page mapped into a reserved range. */
void segments_take(struct segments *s, uint64_t address, uint64_t size);
void segments_reserve(struct segments *s, uint64_t address, uint64_t size);
void segments_map(struct segments *s, uint64_t address, uint64_t size);

/* Driver memory went: whatever is known to lie there. */
void segments_give(struct segments *s, uint64_t address, uint64_t size);
void segments_unreserve(struct segments *s, uint64_t address);

/* Tensors. A free of an unknown block does nothing; a pending one becomes free by segments_complete(). */
struct segments_outcome segments_alloc(struct segments *s, const struct segments_request *r);
void segments_free(struct segments *s, uint64_t address, bool pending);
void segments_complete(struct segments *s, uint64_t address);

/* So many bytes of a segment were taken although free blocks together would have done. */
void segments_force(struct segments *s, uint32_t segment, uint64_t bytes);

/* The pool with these properties, NULL if it has no segment. */
const struct segments_pool *segments_find_pool(const struct segments *s, uint16_t stream, bool small,
					       uint32_t private_id);

/* The largest free block of the device; of one pool (index): that is a search. */
uint64_t segments_largest_free(const struct segments *s);
uint64_t segments_largest_of(const struct segments *s, uint32_t pool);

/* Has the pool a free block of at least this size? */
bool segments_fits(const struct segments *s, uint32_t pool, uint64_t size);

/* Remember the blocks that are live now, instead of those of the mark before. */
void segments_mark(struct segments *s);

/* Call fn for each live or pending block, or (`at_mark`) each that was at the mark, in no order. */
void segments_each(const struct segments *s, bool at_mark,
		   void (*fn)(void *ctx, const struct segments_block *b, const struct segment *g), void *ctx);

/* The block that holds an address; NULL if none does. */
const struct segments_block *segments_at(const struct segments *s, uint64_t address);

#endif
