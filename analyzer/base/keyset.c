/* SPDX-License-Identifier: MIT */
/* A table with open addressing, at most half full. */
#include "analyzer/base/keyset.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define FIRST_SLOTS 64 /* a power of two */

static size_t hash(const struct keyset_key *key)
{
	uint64_t h = 0;

	for (int i = 0; i < 4; i++)
		h = (h ^ key->part[i]) * 0x9e3779b97f4a7c15ull;
	return (size_t)(h ^ h >> 32);
}

/* The slot that has this key, or the free one that it belongs into. */
static uint32_t *slot_of(const struct keyset *s, const struct keyset_key *key)
{
	size_t at = hash(key) & (s->nr_slots - 1);

	while (s->slot[at] && memcmp(&s->key[s->slot[at] - 1], key, sizeof(*key)) != 0)
		at = (at + 1) & (s->nr_slots - 1);
	return &s->slot[at];
}

static void grow(struct keyset *s)
{
	s->nr_slots = s->nr_slots ? 2 * s->nr_slots : FIRST_SLOTS;
	free(s->slot);
	s->slot = heap_alloc(s->nr_slots, sizeof(*s->slot));
	for (size_t i = 0; i < s->nr; i++)
		*slot_of(s, &s->key[i]) = (uint32_t)i + 1;
}

uint32_t keyset_add(struct keyset *s, struct keyset_key key, bool *is_new)
{
	uint32_t *slot;

	if (2 * s->nr >= s->nr_slots)
		grow(s);
	slot = slot_of(s, &key);
	if (is_new)
		*is_new = !*slot;
	if (!*slot) {
		s->key = heap_grow(s->key, &s->room, s->nr + 1, sizeof(*s->key));
		s->key[s->nr++] = key;
		*slot = (uint32_t)s->nr;
	}
	return *slot - 1;
}

bool keyset_find(uint32_t *number, const struct keyset *s, struct keyset_key key)
{
	uint32_t found = s->nr_slots ? *slot_of(s, &key) : 0;

	*number = found - 1;
	return found;
}

void keyset_release(struct keyset *s)
{
	free(s->key);
	free(s->slot);
	*s = (struct keyset){ 0 };
}
