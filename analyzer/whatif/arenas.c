/* SPDX-License-Identifier: MIT */
/* A sorted array of ranges: there are few, and they change seldom. */
#include "analyzer/whatif/arenas.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

void arenas_release(struct arenas *a)
{
	free(a->arena);
	*a = (struct arenas){ 0 };
}

/* The first range that begins after an address. */
static size_t after(const struct arenas *a, uint64_t address)
{
	size_t from = 0, to = a->nr;

	while (from < to) {
		size_t middle = (from + to) / 2;

		if (a->arena[middle].address <= address)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

void arenas_add(struct arenas *a, uint64_t address, uint64_t size, bool reserved)
{
	size_t at;

	arenas_remove(a, address);
	at = after(a, address);
	a->arena = heap_grow(a->arena, &a->room, a->nr + 1, sizeof(*a->arena));
	memmove(&a->arena[at + 1], &a->arena[at], (a->nr - at) * sizeof(*a->arena));
	a->nr++;
	a->arena[at] = (struct arena){ .address = address, .size = size, .reserved = reserved };
}

void arenas_remove(struct arenas *a, uint64_t address)
{
	size_t at = after(a, address);

	if (!at || a->arena[at - 1].address != address)
		return;
	memmove(&a->arena[at - 1], &a->arena[at], (a->nr - at) * sizeof(*a->arena));
	a->nr--;
}

struct arena *arenas_find(const struct arenas *a, uint64_t address)
{
	size_t at = after(a, address);

	return at && address - a->arena[at - 1].address < a->arena[at - 1].size ? &a->arena[at - 1] : NULL;
}
