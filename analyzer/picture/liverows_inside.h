/* SPDX-License-Identifier: MIT */
/* What liverows.c collects and liverows_show.c shows: of no concern to others. */
#ifndef VT_LIVEROWS_INSIDE_H
#define VT_LIVEROWS_INSIDE_H

#include "analyzer/picture/liverows.h"

struct liverows_key {
	uint32_t group, module;
	uint8_t birth_phase, death_phase, fate, cycles;
	uint16_t bits;
};

struct liverows_judged {
	uint8_t category;
	uint32_t module, step;
};

/* Lives that are alike, and one of them. */
struct liverows_sort {
	struct liverows_key key;
	bool is_seen; /* by a census */
	struct life life;
	struct liverows_judged judged;
};

struct liverows_large {
	uint64_t weight;
	uint64_t birth_ns, death_ns;
	uint32_t sort;
	struct life life;
	struct liverows_judged judged;
};

/* A block that is to be summed up: by ordinals, from the first up to, but not with, the last. */
struct liverows_other {
	uint64_t birth, death, bytes, address;
	uint32_t sort;
};

/* A live block. */
struct liverows_open {
	uint64_t birth_ns;
	size_t nr_passed; /* censuses before it */
};

struct liverows {
	struct replay_process *process;
	uint32_t device;
	uint64_t nr_blocks;
	struct liverows_open *open; /* by place - 1 */
	size_t nr_open, open_room;
	struct liverows_large *large; /* after liverows_settle() the largest first */
	size_t nr_large, large_room;
	uint64_t least_weight; /* what is no more than that is not large */
	struct liverows_other *other;
	size_t nr_others, others_room, others_max;
	struct liverows_sort *sort;
	size_t sorts_room;
	uint32_t nr_sorts;
	uint32_t *slot; /* by hash: place of a sort + 1 */
	uint32_t nr_slots;
};

void liverows_add_other(struct liverows *r, const struct liverows_other *other);
struct liverows_other liverows_other_of(const struct liverows_large *l);

#endif
