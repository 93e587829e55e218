/* SPDX-License-Identifier: MIT */
/*
 * Live blocks by the ordinal of the event that made them. Most blocks die young: those of the latest ordinals are
 * found in an array without a search, and only what outlives these is in an index. Memory from mmap. Internal to
 * tracefmt.
 */
#ifndef TFMT_ORDINALS_H
#define TFMT_ORDINALS_H

#include "tracefmt/index.h"

#define TFMT_NR_RECENT (1u << 13) /* about two steps of a training job; their places fit the first cache */

struct tfmt_ordinals {
	uint32_t *recent;      /* by the low bits of the ordinal: slot + 1; 0 = free */
	struct tfmt_index old; /* what lost its place there to a newer one */
};

/* Return 0 or TFMT_E_NOMEM; released, they may be initialised again. */
int tfmt_ordinals_init(struct tfmt_ordinals *o);
void tfmt_ordinals_release(struct tfmt_ordinals *o);

static inline uint32_t *tfmt_ordinals_place(const struct tfmt_ordinals *o, uint64_t ordinal)
{
	return &o->recent[ordinal % TFMT_NR_RECENT];
}

/* What tfmt_ordinals_remove() does for one that lost its place. */
void tfmt_ordinals_remove_old(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot);

/* Add a slot under an ordinal whose place is taken: to the index. Returns 0 or TFMT_E_NOMEM. */
int tfmt_ordinals_add_old(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot);

/* Remove a slot from under its ordinal. */
static inline void tfmt_ordinals_remove(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot)
{
	uint32_t *place = tfmt_ordinals_place(o, ordinal);

	if (*place == slot + 1)
		*place = 0;
	else
		tfmt_ordinals_remove_old(o, ordinal, slot);
}

#endif
