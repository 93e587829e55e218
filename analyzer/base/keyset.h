/* SPDX-License-Identifier: MIT */
/*
 * Keys of up to four numbers, each once, numbered from 0 in the order of arrival: stacks by the ids that a process's trace has for
 * them, frames by the numbers of their texts. So what belongs to a key is made once, and lies in an array by its number.
 */
#ifndef VT_KEYSET_H
#define VT_KEYSET_H

#include <stdbool.h>
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

/* The number of a key, a new one if need be: *is_new then (is_new may be NULL). */
uint32_t keyset_add(struct keyset *s, struct keyset_key key, bool *is_new);

/* The same without adding it. false: it has not been there. */
bool keyset_find(uint32_t *number, const struct keyset *s, struct keyset_key key);
void keyset_release(struct keyset *s);

#endif
