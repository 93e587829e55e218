/* SPDX-License-Identifier: MIT */
/*
 * Live blocks by the ordinal of the event that made them. Most blocks die young: those of the latest ordinals are
 * found in an array without a search, and only what outlives these is in an index. Memory from mmap. Internal to
 * tracefmt.
 */
#ifndef TFMT_ORDINALS_H
#define TFMT_ORDINALS_H

#include "tracefmt/index.h"

#define TFMT_NR_RECENT (1u << 14) /* about two steps of a training job */

struct tfmt_recent {
	uint64_t ordinal;
	uint32_t slot; /* + 1; 0 = free */
};

struct tfmt_ordinals {
	struct tfmt_recent *recent; /* by the low bits of the ordinal */
	struct tfmt_index old;      /* what lost its place there to a newer one */
};

/* Return 0 or TFMT_E_NOMEM; released, they may be initialised again. */
int tfmt_ordinals_init(struct tfmt_ordinals *o);
void tfmt_ordinals_release(struct tfmt_ordinals *o);

static inline struct tfmt_recent *tfmt_ordinals_place(const struct tfmt_ordinals *o, uint64_t ordinal)
{
	return &o->recent[ordinal % TFMT_NR_RECENT];
}

/* The place is taken, or the ordinal is not there: the general case of what follows. */
int tfmt_ordinals_add_old(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot);
void tfmt_ordinals_remove_old(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot);

/* Add a slot under an ordinal that is not there yet. Returns 0 or TFMT_E_NOMEM. */
static inline int tfmt_ordinals_add(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot)
{
	struct tfmt_recent *r = tfmt_ordinals_place(o, ordinal);

	if (r->slot)
		return tfmt_ordinals_add_old(o, ordinal, slot);
	*r = (struct tfmt_recent){ ordinal, slot + 1 };
	return 0;
}

/* Remove a slot from under its ordinal. */
static inline void tfmt_ordinals_remove(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot)
{
	struct tfmt_recent *r = tfmt_ordinals_place(o, ordinal);

	if (r->slot == slot + 1)
		r->slot = 0;
	else
		tfmt_ordinals_remove_old(o, ordinal, slot);
}

#endif
