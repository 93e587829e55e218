/* SPDX-License-Identifier: MIT */
/*
 * Update sites: the lines of the program that call an optimizer, or zero_grad, each a bit. Two optimizers that step in
 * turn, as those of two networks that learn against each other, are told apart by them.
 */
#ifndef VT_UPDATESITES_H
#define VT_UPDATESITES_H

#include "analyzer/pysource/sourcetext.h"
#include "tracefmt/tracefmt.h"

#define UPDATESITES_MAX 30 /* told apart; the others share one more bit */

/* A call of an optimizer: stacks. 0: none. */
struct updatesites_call {
	uint32_t caller; /* what calls the optimizer */
	uint32_t inner;  /* where the optimizer calls something else, as its closure */
};

/* Of one process. Zero before first use. */
struct updatesites {
	uint32_t caller[UPDATESITES_MAX]; /* stack that calls */
	uint32_t nr_callers;
	/* By bit, the sites that, in the function they share, ... */
	uint32_t inside[UPDATESITES_MAX + 1]; /* are called outside of a loop that this one is called in */
	uint32_t always[UPDATESITES_MAX + 1]; /* are called in each round of its loop, and this one after an `if` */
	uint32_t before[UPDATESITES_MAX + 1]; /* stand above */
	uint32_t apart[UPDATESITES_MAX + 1];  /* drop gradients of another object, as the source calls it, than this one */
	struct sourcetext sources;
	uint8_t *of_stack; /* by Python stack id: bit + 1, 0 = not known yet */
	uint32_t nr_stacks;
};

/* The bit of a stack that passes an optimizer; 0: it passes none. Without memory it is looked for each time. */
uint32_t updatesites_bit(struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack);

/* The call of an optimizer that a Python stack passes. */
struct updatesites_call updatesites_call(const struct tfmt_reader *reader, uint32_t python_stack);

/*
 * Where a stack stands to the calls of optimizers that are nearest to it, in the innermost function that it has in
 * common with any: 1 after all of these, -1 not, 0 there is no such function.
 */
int updatesites_order(const struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack);
void updatesites_release(struct updatesites *u);

#endif
