/* SPDX-License-Identifier: MIT */
/* Open-addressing index from key hashes to slot numbers. */
#include "tracefmt/index.h"
#include "tracefmt/pages.h"
#include "tracefmt/tracefmt.h"

#define INDEX_FIRST_ENTRIES 4096

int tfmt_index_init(struct tfmt_index *x)
{
	x->entry = tfmt_pages_new(INDEX_FIRST_ENTRIES * sizeof(*x->entry));
	x->mask = INDEX_FIRST_ENTRIES - 1;
	x->nr = 0;
	return x->entry ? 0 : TFMT_E_NOMEM;
}

void tfmt_index_release(struct tfmt_index *x)
{
	tfmt_pages_free(x->entry, (x->mask + 1) * sizeof(*x->entry));
	x->entry = NULL;
}

static void index_put(struct tfmt_index *x, uint64_t entry)
{
	uint64_t i = entry >> 32;

	while (x->entry[i & x->mask])
		i++;
	x->entry[i & x->mask] = entry;
}

static int index_grow(struct tfmt_index *x)
{
	struct tfmt_index bigger = { .mask = x->mask * 2 + 1, .nr = x->nr };
	uint64_t i;

	bigger.entry = tfmt_pages_new((bigger.mask + 1) * sizeof(*bigger.entry));
	if (!bigger.entry)
		return TFMT_E_NOMEM;
	for (i = 0; i <= x->mask; i++) {
		if (x->entry[i])
			index_put(&bigger, x->entry[i]);
	}
	tfmt_index_release(x);
	*x = bigger;
	return 0;
}

int tfmt_index_add(struct tfmt_index *x, uint32_t hash, uint32_t slot)
{
	if (tfmt_index_is_full(x)) {
		int err = index_grow(x);

		if (err)
			return err;
	}
	index_put(x, (uint64_t)hash << 32 | (slot + 1));
	x->nr++;
	return 0;
}

void tfmt_index_remove(struct tfmt_index *x, uint32_t hash, uint32_t slot)
{
	uint64_t wanted = (uint64_t)hash << 32 | (slot + 1);
	uint64_t at = hash & x->mask;

	while (x->entry[at] != wanted) {
		if (!x->entry[at])
			return;
		at = (at + 1) & x->mask;
	}
	tfmt_index_remove_at(x, at);
}

void tfmt_index_close(struct tfmt_index *x, uint64_t hole)
{
	uint64_t i;

	for (i = (hole + 1) & x->mask; x->entry[i]; i = (i + 1) & x->mask) {
		uint64_t home = (x->entry[i] >> 32) & x->mask;

		/* Move back whatever would not be found any more from its home with the hole in between. */
		if (((i - home) & x->mask) >= ((i - hole) & x->mask)) {
			x->entry[hole] = x->entry[i];
			hole = i;
		}
	}
	x->entry[hole] = 0;
}
