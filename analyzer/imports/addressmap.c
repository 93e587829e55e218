/* SPDX-License-Identifier: MIT */
/* A table with open addressing, at most half full, without traces of what was removed. */
#include "analyzer/imports/addressmap.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

static size_t home(const struct addressmap *m, uint64_t address)
{
	return (size_t)(address * 0x9e3779b97f4a7c15ull >> 32) & (m->nr_slots - 1);
}

/* Where an address is, or would be. */
static size_t place(const struct addressmap *m, uint64_t address)
{
	size_t at = home(m, address);

	while (m->entry[at].is_used && m->entry[at].address != address)
		at = (at + 1) & (m->nr_slots - 1);
	return at;
}

struct addressmap_entry *addressmap_find(const struct addressmap *m, uint64_t address)
{
	struct addressmap_entry *e = m->nr ? &m->entry[place(m, address)] : NULL;

	return e && e->is_used ? e : NULL;
}

static void grow(struct addressmap *m)
{
	struct addressmap larger = { .nr = m->nr, .nr_slots = m->nr_slots ? 2 * m->nr_slots : 64 };

	larger.entry = heap_alloc(larger.nr_slots, sizeof(*larger.entry));
	for (size_t i = 0; i < m->nr_slots; i++)
		if (m->entry[i].is_used)
			larger.entry[place(&larger, m->entry[i].address)] = m->entry[i];
	free(m->entry);
	*m = larger;
}

void addressmap_put(struct addressmap *m, struct addressmap_entry e)
{
	size_t at;

	if (2 * m->nr >= m->nr_slots)
		grow(m);
	at = place(m, e.address);
	m->nr += !m->entry[at].is_used;
	m->entry[at] = e;
	m->entry[at].is_used = true;
}

void addressmap_remove(struct addressmap *m, uint64_t address)
{
	size_t at = m->nr ? place(m, address) : 0, next;

	if (!m->nr || !m->entry[at].is_used)
		return;
	m->nr--;
	for (next = (at + 1) & (m->nr_slots - 1); m->entry[next].is_used; next = (next + 1) & (m->nr_slots - 1)) {
		size_t from = home(m, m->entry[next].address);

		/* It may move to the gap unless its home comes after that. */
		if (((next - from) & (m->nr_slots - 1)) < ((next - at) & (m->nr_slots - 1)))
			continue;
		m->entry[at] = m->entry[next];
		at = next;
	}
	m->entry[at].is_used = false;
}

static int by_address(const void *va, const void *vb)
{
	const struct addressmap_entry *a = va, *b = vb;

	return (a->address > b->address) - (a->address < b->address);
}

struct addressmap_entry *addressmap_sorted(const struct addressmap *m)
{
	struct addressmap_entry *sorted = heap_alloc(m->nr, sizeof(*sorted));
	size_t n = 0;

	for (size_t i = 0; i < m->nr_slots; i++)
		if (m->entry[i].is_used)
			sorted[n++] = m->entry[i];
	if (n)
		qsort(sorted, n, sizeof(*sorted), by_address);
	return sorted;
}

void addressmap_release(struct addressmap *m)
{
	free(m->entry);
	*m = (struct addressmap){ 0 };
}
