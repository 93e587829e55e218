/* SPDX-License-Identifier: MIT */
/* Chains through the blocks themselves: what is freed leaves no gap, and long traces leave no tombstones. */
#include "analyzer/ledger/blocks.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

#define FIRST_PLACES 1024
#define PLACES_MAX (1u << 30)
#define CHAINS_PER_PLACE 8 /* sparse: a chain of two is one that the processor has not foreseen */

void blocks_release(struct blocks *b)
{
	free(b->block);
	free(b->chain);
	*b = (struct blocks){ 0 };
}

struct blocks *blocks_open(void)
{
	return heap_alloc(1, sizeof(struct blocks));
}

void blocks_close(struct blocks *b)
{
	if (b)
		blocks_release(b);
	free(b);
}

struct block *blocks_find(const struct blocks *b, uint8_t space, uint64_t address)
{
	uint32_t *link = b->chain ? blocks_link(b, blocks_chain(b, space, address), space, address) : NULL;

	return link && *link ? &b->block[*link - 1] : NULL;
}

void blocks_grow(struct blocks *b)
{
	uint32_t room = b->places_room ? 2 * b->places_room : FIRST_PLACES;

	b->block = heap_need(room > PLACES_MAX ? NULL : realloc(b->block, room * sizeof(*b->block)));
	free(b->chain);
	b->chain = heap_alloc(CHAINS_PER_PLACE * (size_t)room, sizeof(*b->chain));
	b->shift = (unsigned)__builtin_clzll(CHAINS_PER_PLACE * (uint64_t)room) + 1;
	b->places_room = room;
	for (uint32_t place = b->nr_places; place; place--) {
		struct block *at = &b->block[place - 1];
		uint32_t *first = blocks_chain(b, at->space, at->address);

		at->next = *first;
		*first = place;
	}
}

/* After all others of its chain: of several at one address, which only a broken trace has, the first is found. */
void blocks_insert(struct blocks *b, const struct block *block)
{
	uint32_t *link, place;

	blocks_make_room(b);
	place = blocks_place(b);
	link = blocks_chain(b, block->space, block->address);
	while (*link)
		link = &b->block[*link - 1].next;
	b->block[place - 1] = *block;
	b->block[place - 1].next = 0;
	*link = place;
}

void blocks_remove(struct blocks *b, struct block *block)
{
	uint32_t *link = blocks_chain(b, block->space, block->address), place = (uint32_t)(block - b->block) + 1;

	while (*link != place)
		link = &b->block[*link - 1].next;
	blocks_unlink(b, link);
}
