/* SPDX-License-Identifier: MIT */
/* Blocks by size, each in the smallest gap among those that live when it does. */
#include "analyzer/whatif/ideal.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define SMALL (1ull << 63)
#define GRANULE (2ull << 20)	   /* what a driver hands out memory in */
#define WORK_MAX (1ull << 31)	   /* meetings of two blocks: some ten seconds */

struct ideal_block {
	uint64_t birth, death; /* of the clock below; death UINT64_MAX: it has not ended */
	uint64_t bytes, place;
};

/* ---- taking in ---------------------------------------------------------------------------------- */

static uint64_t *slot_of(struct ideal *i, uint32_t slot)
{
	if (slot >= i->nr_slots) {
		size_t room = i->nr_slots;

		i->of_slot = heap_grow(i->of_slot, &room, (size_t)slot + 1, sizeof(*i->of_slot));
		memset(i->of_slot + i->nr_slots, 0, (room - i->nr_slots) * sizeof(*i->of_slot));
		i->nr_slots = room;
	}
	return &i->of_slot[slot];
}

void ideal_alloc(struct ideal *i, uint32_t slot, uint64_t bytes)
{
	uint64_t *of = slot_of(i, slot);

	ideal_free(i, slot);
	i->time++;
	bytes = torch_rounded(bytes);
	if (bytes <= TORCH_SMALL_MAX) {
		*of = bytes | SMALL;
		i->small_bytes += bytes;
		i->small_peak = i->small_bytes > i->small_peak ? i->small_bytes : i->small_peak;
		return;
	}
	i->block = heap_grow(i->block, &i->room, i->nr + 1, sizeof(*i->block));
	i->block[i->nr++] = (struct ideal_block){ i->time, UINT64_MAX, bytes, 0 };
	*of = i->nr;
}

void ideal_free(struct ideal *i, uint32_t slot)
{
	uint64_t of = slot < i->nr_slots ? i->of_slot[slot] : 0;

	if (!of)
		return;
	i->of_slot[slot] = 0;
	if (of & SMALL)
		i->small_bytes -= of & ~SMALL;
	else
		i->block[of - 1].death = ++i->time;
}

void ideal_reset(struct ideal *i)
{
	for (size_t slot = 0; slot < i->nr_slots; slot++)
		ideal_free(i, (uint32_t)slot);
}

void ideal_release(struct ideal *i)
{
	free(i->block);
	free(i->of_slot);
	*i = (struct ideal){ 0 };
}

/* ---- laying out --------------------------------------------------------------------------------- */

/* Blocks that have their place, by birth, with the latest death of each half, of each quarter ... */
struct placed {
	const struct ideal *ideal;
	uint64_t *latest; /* a binary tree: node 1 is all, node `leaves` + k block k; 0: none has a place */
	size_t leaves;
	struct gap_side {
		uint64_t from, to;
	} *met; /* addresses of those that live with a block */
	size_t nr_met, room;
	uint64_t work;
};

static void set_placed(struct placed *p, size_t k)
{
	uint64_t death = p->ideal->block[k].death;

	for (size_t node = p->leaves + k; node && p->latest[node] < death; node /= 2)
		p->latest[node] = death;
}

/* Those of a node's blocks, first..first+nr-1, that were born before `death` and die after `birth`. */
static void meet(struct placed *p, size_t node, size_t first, size_t nr, uint64_t birth, uint64_t death)
{
	const struct ideal_block *b = &p->ideal->block[first];

	p->work++;
	if (first >= p->ideal->nr || p->latest[node] <= birth || b->birth >= death)
		return;
	if (nr > 1) {
		meet(p, 2 * node, first, nr / 2, birth, death);
		meet(p, 2 * node + 1, first + nr / 2, nr / 2, birth, death);
		return;
	}
	p->met = heap_grow(p->met, &p->room, p->nr_met + 1, sizeof(*p->met));
	p->met[p->nr_met++] = (struct gap_side){ b->place, b->place + b->bytes };
}

static int by_place(const void *va, const void *vb)
{
	const struct gap_side *a = va, *b = vb;

	return a->from < b->from ? -1 : a->from > b->from;
}

/* The smallest gap between those that were met, or the end of the last. */
static uint64_t find_place(struct placed *p, uint64_t bytes)
{
	uint64_t end = 0, best = 0, smallest = UINT64_MAX;

	if (p->nr_met)
		qsort(p->met, p->nr_met, sizeof(*p->met), by_place);
	for (size_t k = 0; k < p->nr_met; k++) {
		if (p->met[k].from >= end + bytes && p->met[k].from - end < smallest) {
			smallest = p->met[k].from - end;
			best = end;
		}
		end = p->met[k].to > end ? p->met[k].to : end;
	}
	return smallest == UINT64_MAX ? end : best;
}

static int by_size(const void *va, const void *vb)
{
	const struct ideal_block *a = *(struct ideal_block *const *)va, *b = *(struct ideal_block *const *)vb;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->birth < b->birth ? -1 : a->birth > b->birth;
}

static uint64_t granules(uint64_t bytes)
{
	return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

bool ideal_place(struct ideal *i, uint64_t *bytes)
{
	struct placed p = { .ideal = i, .leaves = 1 };
	struct ideal_block **order = heap_alloc(i->nr, sizeof(struct ideal_block *));
	uint64_t end = 0;

	while (p.leaves < i->nr)
		p.leaves *= 2;
	p.latest = heap_alloc(2 * p.leaves, sizeof(*p.latest));
	for (size_t k = 0; k < i->nr; k++)
		order[k] = &i->block[k];
	if (i->nr)
		qsort(order, i->nr, sizeof(struct ideal_block *), by_size);
	for (size_t k = 0; k < i->nr && p.work < WORK_MAX; k++) {
		struct ideal_block *b = order[k];

		p.nr_met = 0;
		meet(&p, 1, 0, p.leaves, b->birth, b->death);
		p.work += p.nr_met;
		b->place = find_place(&p, b->bytes);
		end = b->place + b->bytes > end ? b->place + b->bytes : end;
		set_placed(&p, (size_t)(b - i->block));
	}
	free(order);
	free(p.latest);
	free(p.met);
	*bytes = granules(end) + granules(i->small_peak);
	return p.work < WORK_MAX;
}
