/* SPDX-License-Identifier: MIT */
/*
 * Does what a step needs follow the shape of its batch? A least-squares fit of the peaks of the steps before, by the
 * *size* of their batches (the product of the dimensions that vary):
 *
 *	peak = constant + linear * size + quadratic * size * extent
 *
 * where the *extent* is the size without the first dimension (the length, or the pixels), or the size itself where only
 * the first varies. The quadratic term is there only if it makes the fit clearly better.
 */
#ifndef VT_SHAPEFIT_H
#define VT_SHAPEFIT_H

#include "analyzer/training/stepinputs.h"

struct shapefit {
	uint32_t python_stack;                /* of the batches */
	uint64_t dims[STEPINPUTS_DIMS], bytes; /* of the batch in question */
	uint8_t nr_dims;
	uint8_t varying; /* bits of the dimensions that have varied */
	uint32_t nr_steps, nr_sizes; /* that it was fitted to; how many different sizes they had */
	uint64_t largest_peak;       /* of those steps */
	bool is_quadratic;
	double constant, linear, quadratic;
	double r_squared;
};

/*
 * The place whose shapes explain the peaks of a device best, among those of cycles before `cycle`, with what it had in
 * effect at the event `ordinal`. False: there are too few steps, or none explains them (r_squared at least 0.95).
 */
bool shapefit_find(struct shapefit *f, const struct stepinputs_device *d, const struct steps *steps, uint32_t cycle,
		   uint64_t ordinal);

/* Bytes that a step with a batch of these dimensions needs. */
double shapefit_at(const struct shapefit *f, const uint64_t *dims);

/*
 * The largest size of one dimension, the others as in the batch in question, so that a step needs at most so many
 * bytes; 0 = none, or the fit says nothing about that dimension. The first dimension counts as the batch: what depends
 * on the batch is in proportion to it.
 */
uint64_t shapefit_largest(const struct shapefit *f, uint32_t dim, uint64_t bytes);

#endif
