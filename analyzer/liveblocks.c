/* SPDX-License-Identifier: MIT */
/* Linear probing with deletion by backward shift, so that long traces leave no tombstones. */
#include "analyzer/liveblocks.h"

#include <stdlib.h>

#define FIRST_PLACES 1024
#define PLACES_MAX (1u << 30)
#define ENTRIES_PER_PLACE 4 /* sparse: a search that meets a neighbour is one that the processor has not foreseen */

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

/* Where the entry of a block is; if it has none, the free one at which a search for it ends. */
static inline uint64_t *entry_of(const struct blocks *b, uint32_t hash, uint8_t space, uint64_t address)
{
	for (uint64_t i = hash;; i++) {
		uint64_t *entry = &b->entry[i & b->mask];
		const struct block *found;

		if (!*entry)
			return entry;
		found = &b->block[(uint32_t)*entry - 1];
		if (*entry >> 32 == hash && found->address == address && found->space == space)
			return entry;
	}
}

struct block *blocks_find(const struct blocks *b, uint8_t space, uint64_t address)
{
	const uint64_t *entry = b->entry ? entry_of(b, block_hash(space, address), space, address) : NULL;

	return entry && *entry ? &b->block[(uint32_t)*entry - 1] : NULL;
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
	entry = calloc(ENTRIES_PER_PLACE * (size_t)room, sizeof(*entry));
	if (!entry)
		return false;
	free(b->entry);
	b->entry = entry;
	b->mask = ENTRIES_PER_PLACE * (uint64_t)room - 1;
	b->places_room = room;
	for (uint32_t i = 0; i < b->nr_places; i++)
		put_entry(b, block_hash(block[i].space, block[i].address), i);
	return true;
}

static bool has_room(struct blocks *b)
{
	return b->unused || b->nr_places < b->places_room || grow(b);
}

/* There is room. */
static inline uint32_t take_place(struct blocks *b)
{
	uint32_t place = b->unused - 1;

	if (b->unused)
		b->unused = b->block[place].next_unused;
	else
		place = b->nr_places++;
	b->nr_blocks++;
	return place;
}

bool blocks_insert(struct blocks *b, const struct block *block)
{
	uint32_t place;

	if (!has_room(b))
		return false;
	place = take_place(b);
	b->block[place] = *block;
	put_entry(b, block_hash(block->space, block->address), place);
	return true;
}

struct block *blocks_claim(struct blocks *b, uint8_t space, uint64_t address, bool *is_new)
{
	uint32_t hash = block_hash(space, address), place;
	uint64_t *entry;

	if (!has_room(b))
		return NULL;
	entry = entry_of(b, hash, space, address);
	*is_new = !*entry;
	if (*entry)
		return &b->block[(uint32_t)*entry - 1];
	place = take_place(b);
	*entry = (uint64_t)hash << 32 | (place + 1);
	b->block[place] = (struct block){ .address = address, .space = space };
	return &b->block[place];
}

/* Remove the block whose entry this is. */
static inline void remove_entry(struct blocks *b, uint64_t hole)
{
	uint32_t place = (uint32_t)b->entry[hole] - 1;
	uint64_t mask = b->mask;

	for (uint64_t i = (hole + 1) & mask; b->entry[i]; i = (i + 1) & mask) {
		uint64_t home = b->entry[i] >> 32 & mask;

		/* It may fill the hole unless its home lies behind the hole, cyclically. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			b->entry[hole] = b->entry[i];
			hole = i;
		}
	}
	b->entry[hole] = 0;
	b->block[place].space = 0;
	b->block[place].next_unused = b->unused;
	b->unused = place + 1;
	b->nr_blocks--;
}

void blocks_remove(struct blocks *b, struct block *block)
{
	uint32_t hash = block_hash(block->space, block->address), place = (uint32_t)(block - b->block);
	uint64_t hole = hash & b->mask, wanted = (uint64_t)hash << 32 | (place + 1);

	while (b->entry[hole] != wanted)
		hole = (hole + 1) & b->mask;
	remove_entry(b, hole);
}

const struct block *blocks_take(struct blocks *b, uint8_t space, uint64_t address)
{
	uint64_t *entry = b->entry ? entry_of(b, block_hash(space, address), space, address) : NULL;
	const struct block *block;

	if (!entry || !*entry)
		return NULL;
	block = &b->block[(uint32_t)*entry - 1];
	remove_entry(b, (uint64_t)(entry - b->entry));
	return block;
}
