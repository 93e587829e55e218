/* SPDX-License-Identifier: MIT */
/* Live blocks by ordinal: the index of those that are not among the latest. */
#include "tracefmt/ordinals.h"
#include "tracefmt/pages.h"
#include "tracefmt/tracefmt.h"

#define RECENT_BYTES (TFMT_NR_RECENT * sizeof(uint32_t))

int tfmt_ordinals_init(struct tfmt_ordinals *o)
{
	o->recent = tfmt_pages_new(RECENT_BYTES);
	return o->recent ? tfmt_index_init(&o->old) : TFMT_E_NOMEM;
}

void tfmt_ordinals_release(struct tfmt_ordinals *o)
{
	tfmt_pages_free(o->recent, RECENT_BYTES);
	o->recent = NULL;
	tfmt_index_release(&o->old);
}

int tfmt_ordinals_add_old(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot)
{
	return tfmt_index_add(&o->old, tfmt_hash(ordinal), slot);
}

void tfmt_ordinals_remove_old(struct tfmt_ordinals *o, uint64_t ordinal, uint32_t slot)
{
	tfmt_index_remove(&o->old, tfmt_hash(ordinal), slot);
}
