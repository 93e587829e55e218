/* SPDX-License-Identifier: MIT */
/* Linear probing with deletion by backward shift, so that long traces leave no tombstones. */
#include "analyzer/liveblocks.h"

#include <stdlib.h>

static uint64_t home_slot(const struct blocks *b, uint8_t space, uint64_t address)
{
	/* Addresses are multiples of 512 and often equally spaced: multiply, then take high bits. */
	uint64_t hash = (address + ((uint64_t)space << 57)) * 0x9e3779b97f4a7c15ull;

	return (hash ^ hash >> 32) & (b->room - 1);
}

void blocks_release(struct blocks *b)
{
	free(b->slot);
	*b = (struct blocks){ 0 };
}

struct block *blocks_find(const struct blocks *b, uint8_t space, uint64_t address)
{
	if (!b->room)
		return NULL;
	for (uint64_t i = home_slot(b, space, address); b->slot[i].space; i = (i + 1) & (b->room - 1))
		if (b->slot[i].address == address && b->slot[i].space == space)
			return &b->slot[i];
	return NULL;
}

static void place(struct blocks *b, const struct block *block)
{
	uint64_t i = home_slot(b, block->space, block->address);

	while (b->slot[i].space)
		i = (i + 1) & (b->room - 1);
	b->slot[i] = *block;
}

static bool grow(struct blocks *b)
{
	struct blocks grown = { .room = b->room ? 2 * b->room : 1024, .nr_blocks = b->nr_blocks };

	grown.slot = calloc(grown.room, sizeof(*grown.slot));
	if (!grown.slot)
		return false;
	for (uint64_t i = 0; i < b->room; i++)
		if (b->slot[i].space)
			place(&grown, &b->slot[i]);
	free(b->slot);
	*b = grown;
	return true;
}

bool blocks_insert(struct blocks *b, const struct block *block)
{
	if (3 * (b->nr_blocks + 1) > 2 * b->room && !grow(b))
		return false;
	place(b, block);
	b->nr_blocks++;
	return true;
}

void blocks_remove(struct blocks *b, struct block *block)
{
	uint64_t mask = b->room - 1, hole = (uint64_t)(block - b->slot);

	for (uint64_t i = (hole + 1) & mask; b->slot[i].space; i = (i + 1) & mask) {
		uint64_t home = home_slot(b, b->slot[i].space, b->slot[i].address);

		/* It may fill the hole unless its home lies behind the hole, cyclically. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			b->slot[hole] = b->slot[i];
			hole = i;
		}
	}
	b->slot[hole].space = 0;
	b->nr_blocks--;
}
