/* SPDX-License-Identifier: MIT */
/*
 * Distinct triples of numbers, themselves numbered from 1 as they come: stacks by the ids that a process's trace has for
 * them, frames by the numbers of their texts. So that each is written once, and named by its number from then on.
 */
#ifndef VT_NUMBERSET_H
#define VT_NUMBERSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct numberset_member {
	uint32_t a, b, c;
};

/* Zero before first use. */
struct numberset {
	struct numberset_member *member; /* number i is member[i - 1] */
	size_t nr_members, room;
	uint32_t *slot; /* hash table of numbers */
	size_t nr_slots;
};

/* The number of a triple; *is_new: it has not been there before. */
uint32_t numberset_add(struct numberset *s, uint32_t a, uint32_t b, uint32_t c, bool *is_new);

/* The same without adding it; 0 = it has not been there. */
uint32_t numberset_find(const struct numberset *s, uint32_t a, uint32_t b, uint32_t c);
void numberset_release(struct numberset *s);

#endif
