/* SPDX-License-Identifier: MIT */
/* Keys of four numbers, each once, numbered from 0 in the order of arrival. */
#ifndef VT_KEYSET_H
#define VT_KEYSET_H

#include <stddef.h>
#include <stdint.h>

struct keyset_key {
	uint32_t part[4];
};

/* Zero it before the first use. */
struct keyset {
	struct keyset_key *key;
	size_t nr, room;
	uint32_t *slot; /* by hash: number + 1 */
	size_t nr_slots;
};

/* The number of a key, a new one if need be. */
uint32_t keyset_add(struct keyset *s, struct keyset_key key);
void keyset_release(struct keyset *s);

#endif
