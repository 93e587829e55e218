/* SPDX-License-Identifier: MIT */
/* Finds entries by a hash of their keys, open addressing. */
#include "stackmemo.h"

#include <string.h>

#define SLOTS (1u << STACKMEMO_SLOT_BITS)

_Static_assert(SLOTS >= 2 * STACKMEMO_MAX && STACKMEMO_MAX <= UINT16_MAX + 1u, "there is an empty slot, and each fits");

static inline uint32_t first_slot(uint64_t key)
{
	return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> (64 - STACKMEMO_SLOT_BITS));
}

static void empty(struct stackmemo *m)
{
	memset(m->slot, 0, sizeof(m->slot));
	m->nr = m->latest = 0;
	m->entry[0].next = 0;
}

uint32_t stackmemo_look_up(struct stackmemo *m, uint64_t key)
{
	uint32_t i = first_slot(key);

	for (; m->slot[i]; i = (i + 1) % SLOTS) {
		if (m->entry[m->slot[i]].key == key)
			return m->slot[i];
	}
	if (m->nr + 1 == STACKMEMO_MAX) {
		empty(m);
		i = first_slot(key);
	}
	m->slot[i] = (uint16_t)++m->nr;
	m->entry[m->nr] = (struct stackmemo_entry){ .key = key };
	return m->nr;
}
