/* SPDX-License-Identifier: MIT */
/* A table of live blocks, one of waiting ones in the same, and numbers to be given again. */
#include "analyzer/allocator/blockslots.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

enum { LIVE = BLOCK_TENSOR, WAITING = BLOCK_DRIVER }; /* spaces of the table, whose addresses do not meet */

void blockslots_release(struct blockslots *s)
{
	blocks_close(s->of);
	free(s->spare);
	*s = (struct blockslots){ 0 };
}

uint32_t blockslots_next(const struct blockslots *s)
{
	return s->nr_spare ? s->spare[s->nr_spare - 1] : s->nr;
}

static void put(struct blockslots *s, uint8_t space, uint64_t address, uint32_t slot)
{
	struct block b = { .address = address, .space = space, .handle = slot };

	if (!s->of)
		s->of = blocks_open();
	blocks_insert(s->of, &b);
}

static bool take(struct blockslots *s, uint8_t space, uint64_t address, uint32_t *slot)
{
	struct block *b = s->of ? blocks_find(s->of, space, address) : NULL;

	if (!b)
		return false;
	*slot = (uint32_t)b->handle;
	blocks_remove(s->of, b);
	return true;
}

static void spare(struct blockslots *s, uint32_t slot)
{
	s->spare = heap_grow(s->spare, &s->spare_room, s->nr_spare + 1, sizeof(*s->spare));
	s->spare[s->nr_spare++] = slot;
}

uint32_t blockslots_new(struct blockslots *s, uint64_t address)
{
	uint32_t slot = s->nr_spare ? s->spare[--s->nr_spare] : s->nr++;

	put(s, LIVE, address, slot);
	return slot;
}

bool blockslots_end(struct blockslots *s, uint64_t address, uint32_t *slot)
{
	if (!take(s, LIVE, address, slot))
		return false;
	spare(s, *slot);
	return true;
}

bool blockslots_wait(struct blockslots *s, uint64_t address, uint32_t *slot)
{
	uint32_t before;

	if (!take(s, LIVE, address, slot))
		return false;
	take(s, WAITING, address, &before); /* nobody said that it has ended: nobody is given its number again */
	put(s, WAITING, address, *slot);
	return true;
}

bool blockslots_end_waiting(struct blockslots *s, uint64_t address, uint32_t *slot)
{
	if (!take(s, WAITING, address, slot))
		return false;
	spare(s, *slot);
	return true;
}
