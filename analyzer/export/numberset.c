/* SPDX-License-Identifier: MIT */
/* Numbering triples by a hash table with open addressing. */
#include "analyzer/export/numberset.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

#define FIRST_SLOTS 1024 /* a power of two */

static size_t hash_of(const struct numberset_member *m)
{
	uint64_t h = ((uint64_t)m->b << 32 | m->c) ^ (uint64_t)m->a * 0xd6e8feb86659fd93ull;

	h *= 0x9e3779b97f4a7c15ull;
	return (size_t)(h ^ h >> 29);
}

/* The slot that has this triple, or the free one that it belongs into. */
static uint32_t *slot_of(const struct numberset *s, const struct numberset_member *m)
{
	size_t mask = s->nr_slots - 1;

	for (size_t i = hash_of(m) & mask;; i = (i + 1) & mask) {
		const struct numberset_member *there;

		if (!s->slot[i])
			return &s->slot[i];
		there = &s->member[s->slot[i] - 1];
		if (there->a == m->a && there->b == m->b && there->c == m->c)
			return &s->slot[i];
	}
}

static void grow(struct numberset *s)
{
	s->nr_slots = s->nr_slots ? 2 * s->nr_slots : FIRST_SLOTS;
	free(s->slot);
	s->slot = heap_alloc(s->nr_slots, sizeof(*s->slot));
	for (size_t i = 0; i < s->nr_members; i++)
		*slot_of(s, &s->member[i]) = (uint32_t)(i + 1);
}

uint32_t numberset_add(struct numberset *s, uint32_t a, uint32_t b, uint32_t c, bool *is_new)
{
	struct numberset_member m = { a, b, c };
	uint32_t *slot;

	if (2 * (s->nr_members + 1) > s->nr_slots)
		grow(s);
	slot = slot_of(s, &m);
	*is_new = !*slot;
	if (*is_new) {
		s->member = heap_grow(s->member, &s->room, s->nr_members + 1, sizeof(*s->member));
		s->member[s->nr_members++] = m;
		*slot = (uint32_t)s->nr_members;
	}
	return *slot;
}

uint32_t numberset_find(const struct numberset *s, uint32_t a, uint32_t b, uint32_t c)
{
	struct numberset_member m = { a, b, c };

	return s->nr_slots ? *slot_of(s, &m) : 0;
}

void numberset_release(struct numberset *s)
{
	free(s->member);
	free(s->slot);
	*s = (struct numberset){ 0 };
}
