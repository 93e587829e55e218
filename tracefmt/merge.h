/* SPDX-License-Identifier: MIT */
/* The inside of a merge, and the geometry of a ring file. Internal to tracefmt. */
#ifndef TFMT_MERGE_H
#define TFMT_MERGE_H

#include "tracefmt/checkpoint.h"

/* The sequence that an event's order counts in: a device number, or TFMT_DOMAIN_DRIVER. */
static inline unsigned tfmt_domain(unsigned kind, unsigned device)
{
	bool tensor = kind >= TFMT_TENSOR_ALLOC && kind <= TFMT_TENSOR_OOM;

	if ((tensor || kind == TFMT_LOST) && device < TFMT_NR_DEVICES)
		return device;
	return TFMT_DOMAIN_DRIVER;
}

/* Where things lie in a ring file: read from the status page once, checked, then trusted. */
struct tfmt_geometry {
	uint64_t definition_offset, definition_bytes;
	uint64_t ring_offset, ring_stride;
	uint64_t ring_capacity;
	size_t entry_bytes; /* of a definition's entry before its payload */
	bool has_checks;    /* ring file of version 2 */
};

/* Returns 0, or TFMT_E_DAMAGED if the status page cannot be right. */
int tfmt_view_geometry(const struct tfmt_ring_view *view, struct tfmt_geometry *g);

/* Ring i, or NULL if it does not lie within the mapped bytes. */
const struct tfmt_ring *tfmt_view_ring(const struct tfmt_ring_view *view, const struct tfmt_geometry *g,
				       uint32_t i);

/* The time of the newest record of all rings, as they are now; 0 without one. */
uint64_t tfmt_view_newest(const struct tfmt_ring_view *view, const struct tfmt_geometry *g);

/* No ring, where one of a queue is named. */
#define TFMT_RING_NONE UINT16_MAX

/* A ring that has records: its next one, and its place in the queue of that record's domain. */
struct tfmt_merge_head {
	const struct tfmt_ring *ring; /* NULL: not met yet; the view does not move while the merge lives */
	uint64_t end;                 /* first position that was not there when the batch began */
	uint64_t overwritten;         /* records that were gone when the merge came, or torn: nobody has been told of */
	struct tfmt_record record;
	uint32_t thread;              /* whose records lie at the ring's position */
	uint16_t child, sibling;
	uint8_t rank; /* at the same time, the lower goes first */
};

/* The rings whose next record is of one domain, as a pairing heap by order. */
struct tfmt_merge_queue {
	uint16_t first;
	bool is_listed; /* among the domains that have a queue */
};

/* True if a ring that the status page counts lies beyond the mapped bytes. */
bool tfmt_merge_is_cut(const struct tfmt_merge *m);

/* What is wrong with a ring file that was read to its end: pages of it never reached the disk, say. */
struct tfmt_torn {
	uint64_t records;     /* whose checks do not hold */
	uint64_t definitions; /* places in the definition ring where no entry's check holds */
	uint32_t pages;       /* of rings: the head or the thread cannot be right */
	uint64_t offset;      /* of the first of all these in the file */
};

static inline bool tfmt_torn_any(const struct tfmt_torn *t)
{
	return t->records || t->definitions || t->pages;
}

/*
 * Events come in batches: the records that were there when the batch began, so that what one thread
 * publishes meanwhile does not overtake what another had published before.
 */
struct tfmt_merge {
	const struct tfmt_ring_view *view;
	struct tfmt_geometry geometry;
	uint64_t order[TFMT_NR_DOMAINS];     /* next of each domain */
	uint64_t gap_order[TFMT_NR_DOMAINS]; /* missing + 1 when a gap was last noticed */
	uint64_t gap_since[TFMT_NR_DOMAINS]; /* clock when it was noticed first */
	bool from_given;
	bool is_dead;          /* the process has ended: what is whole counts, whatever the heads say */
	uint32_t nr_given;     /* positions given by the caller */
	uint32_t nr_positions; /* rings that have a position */
	uint32_t nr_seen;      /* rings met in the view */
	uint32_t nr_listed;
	uint32_t nr_overwritten; /* rings that lost records in this way */
	struct tfmt_torn torn;
	uint8_t *assembled; /* a definition put together from its entries */
	size_t assembled_bytes;
	bool page_is_torn[TFMT_NR_RINGS];
	uint64_t position[TFMT_NR_RINGS];
	uint8_t listed[TFMT_NR_DOMAINS];
	struct tfmt_merge_queue queue[TFMT_NR_DOMAINS];
	struct tfmt_merge_head head[TFMT_NR_RINGS];
};

#endif
