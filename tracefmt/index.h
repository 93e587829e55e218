/* SPDX-License-Identifier: MIT */
/*
 * An index finds slot numbers by the 32-bit hash of their key: open addressing, linear probing, deletion
 * by shifting back, growing when an eighth is taken: a search that meets neighbours is one that the processor does not
 * foresee. The keys stay with the owner, who compares them; since a candidate shares all 32 bits of the hash, the first
 * one is almost always right.
 * Memory from mmap. Internal to tracefmt.
 */
#ifndef TFMT_INDEX_H
#define TFMT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct tfmt_index {
	uint64_t *entry; /* hash << 32 | slot + 1; 0 = free */
	uint64_t mask;   /* number of entries - 1 */
	uint64_t nr;
};

static inline uint32_t tfmt_hash(uint64_t key)
{
	return (uint32_t)(((key ^ key >> 32) * 0x9e3779b97f4a7c15ull) >> 32);
}

/* Both return 0 or TFMT_E_NOMEM; a released index may be initialised again. */
int tfmt_index_init(struct tfmt_index *x);
void tfmt_index_release(struct tfmt_index *x);

/* Add a slot under a hash; the caller knows that it is not there yet. Returns 0 or TFMT_E_NOMEM. */
int tfmt_index_add(struct tfmt_index *x, uint32_t hash, uint32_t slot);

/* Remove the entry of this slot; nothing happens if there is none. */
void tfmt_index_remove(struct tfmt_index *x, uint32_t hash, uint32_t slot);

/* Would it grow if one more were added? */
static inline bool tfmt_index_is_full(const struct tfmt_index *x)
{
	return x->nr * 8 > x->mask;
}

/* As tfmt_index_add(), where a search has come upon a free entry of an index that is not full. */
static inline void tfmt_index_put_at(struct tfmt_index *x, uint64_t at, uint32_t hash, uint32_t slot)
{
	x->entry[at] = (uint64_t)hash << 32 | (slot + 1);
	x->nr++;
}

/* Make an entry free that others follow, which may have to move there. */
void tfmt_index_close(struct tfmt_index *x, uint64_t hole);

/* Remove the entry at this place of the array. */
static inline void tfmt_index_remove_at(struct tfmt_index *x, uint64_t at)
{
	x->nr--;
	if (x->entry[(at + 1) & x->mask])
		tfmt_index_close(x, at);
	else
		x->entry[at] = 0;
}

/* Where the search for a hash begins. */
static inline const uint64_t *tfmt_index_home(const struct tfmt_index *x, uint32_t hash)
{
	return &x->entry[hash & x->mask];
}

/*
 * The candidates of a hash: begin with *at = hash; each call gives true and *slot, false when there are
 * no more. The index must not change in between.
 */
static inline bool tfmt_index_next(const struct tfmt_index *x, uint32_t hash, uint64_t *at, uint32_t *slot)
{
	for (;;) {
		uint64_t e = x->entry[*at & x->mask];

		if (!e)
			return false;
		++*at;
		if (e >> 32 == hash) {
			*slot = (uint32_t)e - 1;
			return true;
		}
	}
}

#endif
