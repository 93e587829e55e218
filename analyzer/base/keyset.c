/* SPDX-License-Identifier: MIT */
/* A table with open addressing, at most half full. */
#include "analyzer/imports/keyset.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

static size_t hash(const struct keyset_key *key)
{
	uint64_t h = 0;

	for (int i = 0; i < 4; i++)
		h = (h ^ key->part[i]) * 0x9e3779b97f4a7c15ull;
	return (size_t)(h ^ h >> 32);
}

static void rehash(struct keyset *s)
{
	s->nr_slots = s->nr_slots ? 2 * s->nr_slots : 64;
	free(s->slot);
	s->slot = heap_alloc(s->nr_slots, sizeof(*s->slot));
	for (size_t i = 0; i < s->nr; i++) {
		size_t at = hash(&s->key[i]) & (s->nr_slots - 1);

		while (s->slot[at])
			at = (at + 1) & (s->nr_slots - 1);
		s->slot[at] = (uint32_t)i + 1;
	}
}

uint32_t keyset_add(struct keyset *s, struct keyset_key key)
{
	size_t at;

	if (2 * s->nr >= s->nr_slots)
		rehash(s);
	at = hash(&key) & (s->nr_slots - 1);
	for (; s->slot[at]; at = (at + 1) & (s->nr_slots - 1))
		if (!memcmp(&s->key[s->slot[at] - 1], &key, sizeof(key)))
			return s->slot[at] - 1;
	s->key = heap_grow(s->key, &s->room, s->nr + 1, sizeof(*s->key));
	s->key[s->nr++] = key;
	s->slot[at] = (uint32_t)s->nr;
	return (uint32_t)s->nr - 1;
}

void keyset_release(struct keyset *s)
{
	free(s->key);
	free(s->slot);
	*s = (struct keyset){ 0 };
}
