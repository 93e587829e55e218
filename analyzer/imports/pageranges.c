/* SPDX-License-Identifier: MIT */
/* Few ranges in a sorted array: each change moves what follows. */
#include "analyzer/imports/pageranges.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

static uint64_t end_of(const struct pagerange *r)
{
	return r->address + r->size;
}

/* The first range that ends at this address or beyond. */
static size_t first_from(const struct pageranges *p, uint64_t address)
{
	size_t low = 0, high = p->nr;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (end_of(&p->range[middle]) < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Put nr ranges in the place of those from `from` up to, but not with, `to`. */
static void splice(struct pageranges *p, size_t from, size_t to, const struct pagerange *with, size_t nr)
{
	p->range = heap_grow(p->range, &p->room, p->nr + nr, sizeof(*p->range));
	memmove(p->range + from + nr, p->range + to, (p->nr - to) * sizeof(*p->range));
	memcpy(p->range + from, with, nr * sizeof(*p->range));
	p->nr = p->nr - (to - from) + nr;
}

void pageranges_add(struct pageranges *p, uint64_t address, uint64_t size, uint64_t page_bytes)
{
	struct pagerange joined = { address, size, page_bytes };
	size_t from = first_from(p, address), to = from;

	if (!size || size > UINT64_MAX - address)
		return;
	for (; to < p->nr && p->range[to].address <= address + size; to++) {
		const struct pagerange *r = &p->range[to];
		uint64_t end = end_of(&joined) > end_of(r) ? end_of(&joined) : end_of(r);

		joined.address = joined.address < r->address ? joined.address : r->address;
		joined.size = end - joined.address;
		joined.page_bytes = joined.page_bytes < r->page_bytes ? joined.page_bytes : r->page_bytes;
	}
	splice(p, from, to, &joined, 1);
}

void pageranges_remove(struct pageranges *p, uint64_t address, uint64_t size)
{
	size_t from = first_from(p, address), to = from, nr = 0;
	struct pagerange rest[2];

	if (!p->nr || !size || size > UINT64_MAX - address)
		return;
	for (; to < p->nr && p->range[to].address < address + size; to++) {
		struct pagerange r = p->range[to];

		if (r.address < address)
			rest[nr++] = (struct pagerange){ r.address, address - r.address, r.page_bytes };
		if (end_of(&r) > address + size)
			rest[nr++] = (struct pagerange){ address + size, end_of(&r) - address - size, r.page_bytes };
	}
	splice(p, from, to, rest, nr);
}

const struct pagerange *pageranges_find(const struct pageranges *p, uint64_t address)
{
	size_t i = first_from(p, address);

	for (; i < p->nr && p->range[i].address <= address; i++)
		if (address < end_of(&p->range[i]))
			return &p->range[i];
	return NULL;
}

void pageranges_release(struct pageranges *p)
{
	free(p->range);
	*p = (struct pageranges){ 0 };
}
