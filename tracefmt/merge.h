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
	uint64_t overwritten;         /* records that were gone when the merge came, and nobody has been told of */
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

/* True if a ring that the status page counts lies beyond the mapped bytes, or holds a torn record. */
bool tfmt_merge_is_cut(const struct tfmt_merge *m);

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
	uint32_t nr_given;     /* positions given by the caller */
	uint32_t nr_positions; /* rings that have a position */
	uint32_t nr_seen;      /* rings met in the view */
	uint32_t nr_listed;
	uint32_t nr_overwritten; /* rings that lost records in this way */
	uint8_t *assembled; /* a definition put together from its entries */
	size_t assembled_bytes;
	bool ended[TFMT_NR_RINGS]; /* its next record is not whole */
	uint64_t position[TFMT_NR_RINGS];
	uint8_t listed[TFMT_NR_DOMAINS];
	struct tfmt_merge_queue queue[TFMT_NR_DOMAINS];
	struct tfmt_merge_head head[TFMT_NR_RINGS];
};

#endif
