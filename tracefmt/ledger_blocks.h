/* SPDX-License-Identifier: MIT */
/*
 * The blocks of a ledger, for the rules in ledger.c: each has a slot, is found by its key or by its ordinal, and
 * counts in a total. What nearly every event of a tensor needs is inline. Internal to the ledger.
 */
#ifndef TFMT_LEDGER_BLOCKS_H
#define TFMT_LEDGER_BLOCKS_H

#include "tracefmt/ledger.h"
#include "tracefmt/varint.h"

/* The slot of the live block with this key; false: none. Tensors are found if the ledger has their addresses. */
bool tfmt_ledger_find(const struct tfmt_ledger *l, unsigned group, unsigned device, uint64_t address, uint32_t *slot);

/*
 * Make a block live; one believed live under the same key was freed unseen and is dropped. origin is looked at if
 * there is a history. Returns 0 or TFMT_E_NOMEM.
 */
int tfmt_ledger_put(struct tfmt_ledger *l, const struct tfmt_block *b, const struct tfmt_origin *origin);

/* The block of a slot is live no more, whatever references it has. */
void tfmt_ledger_drop(struct tfmt_ledger *l, uint32_t slot);

/* What the inline functions below leave to others. */
TFMT_SELDOM int tfmt_ledger_grow(struct tfmt_ledger *l);
TFMT_SELDOM bool tfmt_ledger_find_old(const struct tfmt_ledger *l, uint64_t ordinal, uint32_t *slot);
TFMT_SELDOM int tfmt_ledger_move_ordinal(struct tfmt_ledger *l, uint64_t ordinal, uint32_t slot);

/* The slot of the live block that the event of this ordinal made; false: there is none. */
static inline bool tfmt_ledger_find_ordinal(const struct tfmt_ledger *l, uint64_t ordinal, uint32_t *slot)
{
	uint32_t recent = *tfmt_ordinals_place(&l->by_ordinal, ordinal);

	*slot = recent - 1;
	return (recent && l->block[*slot].ordinal == ordinal) || tfmt_ledger_find_old(l, ordinal, slot);
}

/* A slot for a new block. Returns 0 or TFMT_E_NOMEM. */
static inline int tfmt_ledger_take_slot(struct tfmt_ledger *l, uint32_t *slot)
{
	if (l->unused) {
		*slot = l->unused - 1;
		l->unused = l->block[*slot].next_unused;
		return 0;
	}
	if (l->nr_slots == l->max_slots && tfmt_ledger_grow(l))
		return TFMT_E_NOMEM;
	*slot = l->nr_slots++;
	return 0;
}

/* A block that is not among those of the ordinals becomes one. Returns 0 or TFMT_E_NOMEM. */
static inline int tfmt_ledger_add_ordinal(struct tfmt_ledger *l, uint64_t ordinal, uint32_t slot)
{
	uint32_t *place = tfmt_ordinals_place(&l->by_ordinal, ordinal);

	if (*place)
		return tfmt_ledger_move_ordinal(l, ordinal, slot);
	*place = slot + 1;
	return 0;
}

#endif
