/* SPDX-License-Identifier: MIT */
/*
 * Blocks that are an optimizer's state of one parameter, as a census's names tell: of which parameter, what, in which optimizer.
 * An optimizer has one of a kind for each parameter: two alike are of an older optimizer and a newer one.
 */
#ifndef VT_OPTIMIZERSTATES_H
#define VT_OPTIMIZERSTATES_H

#include "analyzer/purpose/namedblocks.h"

struct optimizerstate {
	size_t block; /* as the caller numbers them: in the order of allocation */
	const struct names_census *census;
	uint32_t optimizer, parameter; /* objects of the census */
	unsigned name; /* number of what it is called, in the set: exp_avg of model.weight */
};

/* Zeroed: empty. */
struct optimizerstates {
	struct optimizerstate *state;
	size_t nr, room;
	struct textset names; /* private */
};

/* Add a block of a moment. false: it is no such state, as far as is known. */
bool optimizerstates_add(struct optimizerstates *s, const struct replay_process *process, const struct life *life,
			 enum lives_moment moment, size_t block);

/* Put what has the same name side by side, in the order of allocation. Nothing is added afterwards. */
void optimizerstates_sort(struct optimizerstates *s);

/* Has a later optimizer the same state as this one? Sorted. */
bool optimizerstates_is_older(const struct optimizerstates *s, size_t i);

void optimizerstates_release(struct optimizerstates *s);

#endif
