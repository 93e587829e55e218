/* SPDX-License-Identifier: MIT */
/*
 * What tensor blocks are for: parameters, gradients, optimizer state, activations, ... of one device at one moment.
 *
 * Each block is judged by its life (lives.h): by the rules for the stack that allocated it (categories.def), else by
 * the phase it was allocated in and what it outlived, and by shapes: a gradient has the shape of a parameter. A block
 * whose end is not known, because the recording ends first or memory ran out, is judged as most blocks of its stack
 * and shape turned out. Where a census saw what a block is for (names.h), that is a fact, and nothing else is asked.
 * docs/categories.md has it in words.
 */
#ifndef VT_CATEGORY_H
#define VT_CATEGORY_H

#include "analyzer/purpose/category_rules.h"
#include "analyzer/replay/replay.h"

struct category_block {
	struct life life;
	enum category category;
	uint32_t step; /* it was allocated in, 1 the first; 0 = there are none */
	uint32_t module; /* path in the process's modulepaths, 0 = not known */
	bool is_fact;    /* a census saw what it is for */
};

struct category_sum {
	uint64_t bytes, blocks;
};

struct categories {
	struct category_block *block; /* by order of allocation */
	size_t nr_blocks;
	struct category_sum sum[NR_CATEGORIES]; /* the bytes add up to the total */
	uint64_t rounding_bytes; /* of those unknown: what blocks have more than their tensors */
};
#define CATEGORIES_INIT { 0 }

/*
 * The blocks of a device at a moment; the replay must have been loaded with lives. Sums are of what tensors take of
 * their blocks: what the allocator's rounding adds is for nothing, and counts as unknown. So does what is not known
 * block by block of `total`, the bytes that were allocated then. categories_release() is needed.
 */
void categories_find(struct categories *c, struct replay_process *process, uint32_t device, enum lives_moment moment,
		     uint64_t total);
/*
 * The same of blocks that need not be live at one moment: `life`, by order of allocation. Sums are of all of them.
 * categories_release() is needed.
 */
void categories_judge(struct categories *c, struct replay_process *process, const struct life *life, size_t nr);
void categories_release(struct categories *c);

/*
 * Does anything tell phases? Not in a program whose forwards are not seen; where memory runs out while a model is being
 * made or moved, before its first forward, that shows on a stack.
 */
bool categories_tell_phases(const struct replay_process *process);

/* The moment of a device that a mark is; LIVES_NONE if it has none, or lives do not know it (MARK_DRIVER_PEAK). */
enum lives_moment categories_moment(const struct replay_process *process, uint32_t device, enum group_mark mark);

#endif
