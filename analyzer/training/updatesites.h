/* SPDX-License-Identifier: MIT */
/*
 * Update sites: the lines of the program that call an optimizer, or zero_grad, each a bit. Two optimizers that step in
 * turn, as those of two networks that learn against each other, are told apart by them.
 */
#ifndef VT_UPDATESITES_H
#define VT_UPDATESITES_H

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
	uint32_t inside[UPDATESITES_MAX + 1]; /* are less far in than this one: in a loop, or after a condition */
	uint32_t before[UPDATESITES_MAX + 1]; /* stand above */
	uint32_t alike[UPDATESITES_MAX + 1];  /* have dropped gradients that were made where some were that this one has */
	uint32_t *droppers; /* by Python stack id: sites that have dropped gradients which were made there */
	uint32_t nr_born;
	uint8_t *of_stack; /* by Python stack id: bit + 1, UINT8_MAX = none, 0 = not known yet */
	uint32_t nr_stacks;
};

/* The bit of a stack that passes an optimizer; 0: it passes none. Without memory it is looked for each time. */
uint32_t updatesites_bit(struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack);

/* A gradient that was made at one stack is freed at another, `python_stack`. */
void updatesites_drop(struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack, uint32_t born_at);

/* The sites that drop gradients, none of which was made where any was that the site of this bit drops, which does too. */
uint32_t updatesites_apart(const struct updatesites *u, uint32_t number);

/* The call of an optimizer that a Python stack passes. */
struct updatesites_call updatesites_call(const struct tfmt_reader *reader, uint32_t python_stack);

/*
 * Where a stack stands to the calls of optimizers that are nearest to it, in the innermost function that it has in
 * common with any: 1 after all of these, -1 not, 0 there is no such function.
 */
int updatesites_order(const struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack);
void updatesites_release(struct updatesites *u);

#endif
