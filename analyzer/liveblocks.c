/* SPDX-License-Identifier: MIT */
/* Linear probing with deletion by backward shift, so that long traces leave no tombstones. */
#include "analyzer/liveblocks.h"

#include <stdlib.h>

#define FIRST_PLACES 1024
#define PLACES_MAX (1u << 30)

/* Addresses are multiples of 512 and often equally spaced: multiply, then take high bits. */
static uint32_t block_hash(uint8_t space, uint64_t address)
{
	return (uint32_t)((address + ((uint64_t)space << 57)) * 0x9e3779b97f4a7c15ull >> 32);
}

void blocks_release(struct blocks *b)
{
	free(b->block);
	free(b->entry);
	*b = (struct blocks){ 0 };
}

struct block *blocks_find(const struct blocks *b, uint8_t space, uint64_t address)
{
	uint32_t hash = block_hash(space, address);

	if (!b->entry)
		return NULL;
	for (uint64_t i = hash; b->entry[i & b->mask]; i++) {
		uint64_t entry = b->entry[i & b->mask];
		struct block *found = &b->block[(uint32_t)entry - 1];

		if (entry >> 32 == hash && found->address == address && found->space == space)
			return found;
	}
	return NULL;
}

static void put_entry(struct blocks *b, uint32_t hash, uint32_t place)
{
	uint64_t i = hash;

	while (b->entry[i & b->mask])
		i++;
	b->entry[i & b->mask] = (uint64_t)hash << 32 | (place + 1);
}

/* Room for twice as many. No place is unused then. */
static bool grow(struct blocks *b)
{
	uint32_t room = b->places_room ? 2 * b->places_room : FIRST_PLACES;
	struct block *block;
	uint64_t *entry;

	if (room > PLACES_MAX)
		return false;
	block = realloc(b->block, room * sizeof(*block));
	if (!block)
		return false;
	b->block = block;
	entry = calloc(2 * (size_t)room, sizeof(*entry));
	if (!entry)
		return false;
	free(b->entry);
	b->entry = entry;
	b->mask = 2 * (uint64_t)room - 1;
	b->places_room = room;
	for (uint32_t i = 0; i < b->nr_places; i++)
		put_entry(b, block_hash(block[i].space, block[i].address), i);
	return true;
}

bool blocks_insert(struct blocks *b, const struct block *block)
{
	uint32_t place = b->unused - 1;

	if (b->unused) {
		b->unused = b->block[place].next_unused;
	} else {
		if (b->nr_places == b->places_room && !grow(b))
			return false;
		place = b->nr_places++;
	}
	b->block[place] = *block;
	put_entry(b, block_hash(block->space, block->address), place);
	b->nr_blocks++;
	return true;
}

void blocks_remove(struct blocks *b, struct block *block)
{
	uint32_t hash = block_hash(block->space, block->address), place = (uint32_t)(block - b->block);
	uint64_t mask = b->mask, hole = hash & mask, wanted = (uint64_t)hash << 32 | (place + 1);

	while (b->entry[hole] != wanted)
		hole = (hole + 1) & mask;
	for (uint64_t i = (hole + 1) & mask; b->entry[i]; i = (i + 1) & mask) {
		uint64_t home = b->entry[i] >> 32 & mask;

		/* It may fill the hole unless its home lies behind the hole, cyclically. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			b->entry[hole] = b->entry[i];
			hole = i;
		}
	}
	b->entry[hole] = 0;
	block->space = 0;
	block->next_unused = b->unused;
	b->unused = place + 1;
	b->nr_blocks--;
}
