/* SPDX-License-Identifier: MIT */
/*
 * The blocks that are live at one moment of a trace, by address. Blocks lie in an array, and stay where they are
 * while they live; a hash table leads to them, by chains that go through the blocks. Their size follows the number of
 * live blocks, never the number of events.
 *
 * block.next is the place + 1 of the next in its chain; of what is not live, of the next such; 0 = none. What is not
 * live has the space 0.
 */
#ifndef VT_BLOCKS_H
#define VT_BLOCKS_H

#include "analyzer/ledger/books.h"

struct blocks {
	struct block *block; /* nr_places of them, some not live */
	uint32_t nr_places, places_room, unused; /* unused: place + 1 of the first that is not live */
	uint64_t nr_blocks;
	uint32_t *chain; /* by hash: place + 1 of the first; 0 = none */
	unsigned shift;  /* of a hash, to the number of its chain */
};

void blocks_release(struct blocks *b);

/*
 * Add a block at an address that is free in its space, to be filled in by the caller but for address and space. NULL
 * (and *is_live) when a block is there: nothing was added then.
 */
static inline struct block *blocks_add(struct blocks *b, uint8_t space, uint64_t address, bool *is_live);

/* Remove the block at an address, and return what it was, but for space and next, until the next insert. NULL: none. */
static inline const struct block *blocks_take(struct blocks *b, uint8_t space, uint64_t address);

/* ---- inside: what is done for each event ------------------------------------------------------- */

/* Makes room for twice as many. No place is unused then. */
void blocks_grow(struct blocks *b);

/* Addresses are multiples of 512 and often equally spaced: multiply, then take high bits. */
static inline uint32_t *blocks_chain(const struct blocks *b, uint8_t space, uint64_t address)
{
	return &b->chain[(address + ((uint64_t)space << 57)) * 0x9e3779b97f4a7c15ull >> b->shift];
}

/* What leads to the block at an address, from its chain on; if there is none, the end of the chain. */
static inline uint32_t *blocks_link(const struct blocks *b, uint32_t *link, uint8_t space, uint64_t address)
{
	while (*link && (b->block[*link - 1].address != address || b->block[*link - 1].space != space))
		link = &b->block[*link - 1].next;
	return link;
}

/* There is room: a place that is in no chain yet. Returns its number + 1. */
static inline uint32_t blocks_place(struct blocks *b)
{
	uint32_t place = b->unused;

	b->nr_blocks++;
	if (!place)
		return ++b->nr_places;
	b->unused = b->block[place - 1].next;
	return place;
}

/* Remove the block that a link leads to. */
static inline const struct block *blocks_unlink(struct blocks *b, uint32_t *link)
{
	uint32_t place = *link;
	struct block *block = &b->block[place - 1];

	*link = block->next;
	block->space = 0;
	block->next = b->unused;
	b->unused = place;
	b->nr_blocks--;
	return block;
}

static inline void blocks_make_room(struct blocks *b)
{
	if (!b->unused && b->nr_places >= b->places_room)
		blocks_grow(b);
}

static inline struct block *blocks_add(struct blocks *b, uint8_t space, uint64_t address, bool *is_live)
{
	struct block *block;
	uint32_t *chain, place;

	blocks_make_room(b);
	chain = blocks_chain(b, space, address);
	*is_live = *blocks_link(b, chain, space, address);
	if (*is_live)
		return NULL;
	place = blocks_place(b);
	block = &b->block[place - 1];
	block->address = address;
	block->space = space;
	block->next = *chain;
	*chain = place;
	return block;
}

static inline const struct block *blocks_take(struct blocks *b, uint8_t space, uint64_t address)
{
	uint32_t *link;

	if (!b->chain)
		return NULL;
	link = blocks_link(b, blocks_chain(b, space, address), space, address);
	return *link ? blocks_unlink(b, link) : NULL;
}

#endif
