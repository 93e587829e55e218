/* SPDX-License-Identifier: MIT */
/* The blocks that a ledger holds: where they lie, how they are found, and the totals that they count in. */
#include "tracefmt/ledger_blocks.h"
#include "tracefmt/pages.h"

#define LEDGER_FIRST_SLOTS 1024

int tfmt_ledger_init(struct tfmt_ledger *l, bool reader)
{
	l->use_ordinals = reader;
	l->use_tensor_addresses = !reader;
	l->max_slots = LEDGER_FIRST_SLOTS;
	l->block = tfmt_pages_new(l->max_slots * sizeof(*l->block));
	if (!l->block || tfmt_index_init(&l->by_address) || (reader && tfmt_ordinals_init(&l->by_ordinal))) {
		tfmt_ledger_release(l);
		return TFMT_E_NOMEM;
	}
	return 0;
}

void tfmt_ledger_release(struct tfmt_ledger *l)
{
	tfmt_pages_free(l->block, l->max_slots * sizeof(*l->block));
	l->block = NULL;
	tfmt_pages_free(l->origin, l->max_origins * sizeof(*l->origin));
	l->origin = NULL;
	tfmt_history_free(l->history);
	l->history = NULL;
	tfmt_index_release(&l->by_address);
	if (l->use_ordinals)
		tfmt_ordinals_release(&l->by_ordinal);
	for (unsigned i = 0; i < TFMT_NR_UNDO; i++) {
		tfmt_pages_free(l->undo[i].ended, l->undo[i].room * sizeof(struct tfmt_ended));
		l->undo[i] = (struct tfmt_undo){ 0 };
	}
}

int tfmt_ledger_keep_history(struct tfmt_ledger *l, uint8_t time_shift)
{
	l->max_origins = l->max_slots;
	l->origin = tfmt_pages_new(l->max_origins * sizeof(*l->origin));
	l->history = l->origin ? tfmt_history_new(&l->totals, time_shift) : NULL;
	return l->history ? 0 : TFMT_E_NOMEM;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool block_has_address(const struct tfmt_ledger *l, const struct tfmt_block *b)
{
	return l->use_tensor_addresses || b->group != TFMT_GROUP_TENSOR;
}

bool tfmt_ledger_find(const struct tfmt_ledger *l, unsigned group, unsigned device, uint64_t address,
			uint32_t *slot)
{
	uint32_t hash = tfmt_block_hash(group, device, address);
	uint64_t at = hash;

	while (tfmt_index_next(&l->by_address, hash, &at, slot)) {
		const struct tfmt_block *b = &l->block[*slot];

		if (b->address == address && b->group == group &&
		    (group != TFMT_GROUP_TENSOR || b->device == device))
			return true;
	}
	return false;
}

/* A block that outlived its place among the latest. */
bool tfmt_ledger_find_old(const struct tfmt_ledger *l, uint64_t ordinal, uint32_t *slot)
{
	uint32_t hash = tfmt_hash(ordinal);
	uint64_t at = hash;

	while (tfmt_index_next(&l->by_ordinal.old, hash, &at, slot)) {
		if (l->block[*slot].ordinal == ordinal)
			return true;
	}
	return false;
}

/* The total that a block counts in, NULL if none. */
static uint64_t *block_total(struct tfmt_ledger *l, const struct tfmt_block *b)
{
	bool has_device = b->device < TFMT_NR_DEVICES;

	if (b->group == TFMT_GROUP_TENSOR)
		return has_device ? &l->totals.allocated[b->device] : NULL;
	if (b->group == TFMT_GROUP_MAPPING)
		return NULL;
	switch (b->space) {
	case TFMT_SPACE_PINNED:
	case TFMT_SPACE_REGISTERED:
	case TFMT_SPACE_POOL_HOST:
	case TFMT_SPACE_HANDLE_HOST:
		return &l->totals.pinned;
	case TFMT_SPACE_MANAGED:
		return has_device ? &l->totals.managed[b->device] : NULL;
	case TFMT_SPACE_IPC:
	case TFMT_SPACE_RESERVED:
	case TFMT_SPACE_GRAPH:
	case TFMT_SPACE_MULTICAST:
	case TFMT_SPACE_HANDLE_IMPORTED:
		return NULL;
	default:
		return has_device ? &l->totals.driver[b->device] : NULL;
	}
}

void tfmt_ledger_drop(struct tfmt_ledger *l, uint32_t slot)
{
	struct tfmt_block *b = &l->block[slot];
	uint64_t *total = block_total(l, b);

	if (total)
		tfmt_total_give_back(total, b->size);
	if (l->history)
		tfmt_history_leave(l->history, b, &l->origin[slot]);
	if (block_has_address(l, b))
		tfmt_index_remove(&l->by_address, tfmt_block_hash(b->group, b->device, b->address), slot);
	if (l->use_ordinals)
		tfmt_ordinals_remove(&l->by_ordinal, b->ordinal, slot);
	tfmt_block_end(b, slot, &l->unused);
}

/* Room for twice as many blocks' origins, unless there was a time when only the blocks could not be had. */
static int ledger_grow_origins(struct tfmt_ledger *l)
{
	size_t bytes = l->max_origins * sizeof(*l->origin);
	void *grown;

	if (!l->origin || l->max_origins > l->max_slots)
		return 0;
	grown = tfmt_pages_grow(l->origin, bytes, 2 * bytes);
	if (!grown)
		return TFMT_E_NOMEM;
	l->origin = grown;
	l->max_origins *= 2;
	return 0;
}

/* Room for twice as many blocks. Returns 0, or TFMT_E_NOMEM and the ledger is as it was. */
int tfmt_ledger_grow(struct tfmt_ledger *l)
{
	size_t bytes = l->max_slots * sizeof(*l->block);
	void *grown;

	if (l->max_slots > UINT32_MAX / 4 || ledger_grow_origins(l))
		return TFMT_E_NOMEM;
	grown = tfmt_pages_grow(l->block, bytes, 2 * bytes);
	if (!grown)
		return TFMT_E_NOMEM;
	l->block = grown;
	l->max_slots *= 2;
	return 0;
}

/* The place is another's: the older of the two goes to the index. */
int tfmt_ledger_move_ordinal(struct tfmt_ledger *l, uint64_t ordinal, uint32_t slot)
{
	uint32_t *place = tfmt_ordinals_place(&l->by_ordinal, ordinal), other = *place - 1;
	uint64_t other_ordinal = l->block[other].ordinal;

	if (other_ordinal > ordinal)
		return tfmt_ordinals_add_old(&l->by_ordinal, ordinal, slot);
	*place = slot + 1;
	return tfmt_ordinals_add_old(&l->by_ordinal, other_ordinal, other);
}

int tfmt_ledger_put(struct tfmt_ledger *l, const struct tfmt_block *b, const struct tfmt_origin *origin)
{
	uint64_t *total;
	uint32_t slot;
	int err;

	if (block_has_address(l, b) && tfmt_ledger_find(l, b->group, b->device, b->address, &slot))
		tfmt_ledger_drop(l, slot);
	err = tfmt_ledger_take_slot(l, &slot);
	if (!err && block_has_address(l, b))
		err = tfmt_index_add(&l->by_address, tfmt_block_hash(b->group, b->device, b->address), slot);
	if (!err && l->use_ordinals)
		err = tfmt_ledger_add_ordinal(l, b->ordinal, slot);
	if (err)
		return err;
	l->block[slot] = *b;
	l->block[slot].live = true;
	total = block_total(l, b);
	if (total)
		*total += b->size;
	if (l->history) {
		l->origin[slot] = *origin;
		tfmt_history_enter(l->history, b, origin);
	}
	return 0;
}

int tfmt_ledger_use_addresses(struct tfmt_ledger *l)
{
	uint32_t i, other;
	int err;

	if (l->use_tensor_addresses)
		return 0;
	l->use_tensor_addresses = true;
	for (i = 0; i < l->nr_slots; i++) {
		const struct tfmt_block *b = &l->block[i];

		if (!b->live || b->group != TFMT_GROUP_TENSOR)
			continue;
		if (tfmt_ledger_find(l, b->group, b->device, b->address, &other)) {
			if (l->block[other].ordinal > b->ordinal)
				continue;
			tfmt_ledger_drop(l, other);
		}
		err = tfmt_index_add(&l->by_address, tfmt_block_hash(b->group, b->device, b->address), i);
		if (err)
			return err;
	}
	return 0;
}

bool tfmt_ledger_handle(const struct tfmt_ledger *l, const struct tfmt_block *mapping, uint32_t *slot)
{
	return tfmt_ledger_find(l, TFMT_GROUP_HANDLE, 0, mapping->handle, slot) &&
	       l->block[*slot].ordinal == mapping->handle_ordinal;
}

bool tfmt_ledger_is_live(const struct tfmt_ledger *l, const struct tfmt_block *b, uint32_t *slot)
{
	return tfmt_ledger_find(l, b->group, b->device, b->address, slot) && l->block[*slot].ordinal == b->ordinal;
}
