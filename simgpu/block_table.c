/* SPDX-License-Identifier: MIT */
/* The address table: disjoint blocks, found by any address inside them in O(log n). */
#include <search.h>
#include <stdlib.h>

#include "simgpu/internal.h"

struct sim_blocks sim_blocks;

static uint64_t last_id;

/*
 * Two blocks compare equal when they overlap. Blocks of a set are disjoint, so this orders them, and a block
 * of one byte finds the one that contains it.
 */
static int compare(const void *a, const void *b)
{
	const struct sim_block *x = a, *y = b;

	if (x->start + x->bytes <= y->start)
		return -1;
	return x->start >= y->start + y->bytes;
}

struct sim_block *sim_blocks_add(struct sim_blocks *set, const struct sim_block *block)
{
	struct sim_block *entry = sim_alloc(sizeof(*entry));

	*entry = *block;
	entry->id = ++last_id;
	if (!tsearch(entry, &set->root, compare))
		sim_host_limit("malloc failed", "free some memory on this machine");
	return entry;
}

struct sim_block *sim_blocks_find(const struct sim_blocks *set, uintptr_t address)
{
	const struct sim_block key = { .start = address, .bytes = 1 };
	struct sim_block **node = tfind(&key, &set->root, compare);

	return node ? *node : NULL;
}

bool sim_blocks_remove(struct sim_blocks *set, uintptr_t address, struct sim_block *out)
{
	struct sim_block *entry = sim_blocks_find(set, address);

	if (!entry || entry->start != address)
		return false;
	*out = *entry;
	tdelete(entry, &set->root, compare);
	free(entry);
	return true;
}

bool sim_kind_is_device(enum sim_kind kind)
{
	return kind <= SIM_GLOBAL;
}
