/* SPDX-License-Identifier: MIT */
/*
 * The pieces of driver memory of one device that are drawn: the largest of all that there were. They tell in which of them
 * an address lay; and how much each library had taken from the driver at some moments.
 */
#ifndef VT_PIECES_H
#define VT_PIECES_H

#include "analyzer/picture/driverspans.h"
#include "analyzer/picture/moments.h"

struct pieces {
	const struct driverspan **piece; /* the largest first */
	size_t nr_pieces;
	uint64_t nr_left_out;
	uint32_t *place;    /* places in piece[] by address */
	uint64_t *reach;    /* of each of those: where the furthest of it and those before it ends */
};

/* Choose at most so many; *spans stays as it is. To be closed. */
void pieces_open(struct pieces *p, const struct driverspans *spans, uint32_t device, size_t max);
void pieces_close(struct pieces *p);

/* The piece in which an address lay after the event of this ordinal: 1 + its place; 0 = none that is drawn. */
uint32_t pieces_find(const struct pieces *p, uint64_t address, uint64_t ordinal);

/* What one library's calls had taken. */
struct pieces_owner {
	uint32_t owner;  /* enum owner */
	uint64_t *bytes; /* at each point */
};

/* Of all pieces, drawn or not, by owner; in a new array to be freed by pieces_owners_free(). */
struct pieces_owner *pieces_owners(const struct driverspans *spans, struct books *books, uint32_t device,
				   const struct moments_point *point, size_t nr_points, size_t *nr_owners);
void pieces_owners_free(struct pieces_owner *owner, size_t nr_owners);

#endif
