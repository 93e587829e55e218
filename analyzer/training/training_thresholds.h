/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of how a training loop is told into steps: what decides, in which unit, and why it is about so large. A
 * "part" divides: 2 is a half.
 */
#ifndef VT_TRAINING_THRESHOLDS_H
#define VT_TRAINING_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/*
 * Cycles that a block is there for, from its birth, to have stayed long: a batch that was fetched ahead is there for
 * its own cycle and the one before.
 */
#define LONG_CYCLES THRESHOLD(LONG_CYCLES, 3)
/*
 * Turns of an optimizer, or of zero_grad, from which on they bound steps, and clipping of gradients does not: one
 * update alone is the making of the optimizer's state.
 */
#define SURE_ENOUGH THRESHOLD(SURE_ENOUGH, 2)
/*
 * Turns of one line in a round: a critic is trained up to five times, or ten, for one update of its generator; more
 * in a row are a loop over data.
 */
#define REPEATED_MAX THRESHOLD(REPEATED_MAX, 10)
/* Part of the turns that are of an optimizer that has allocated: from most on they tell; else zero_grad does. */
#define WORKING_PART THRESHOLD_RATIO(WORKING_PART, 2)

/* ---- the curve of a step's memory by its batch (shapefit.c) ------------------------------------ */

/* Steps of the curve: a line goes through two, and through three that are noisy by chance. */
#define FIT_STEPS_MIN THRESHOLD(FIT_STEPS_MIN, 4)
/* Sizes of batches of the curve: two make a line of any two levels of memory; a parabola takes one more. */
#define FIT_SIZES_MIN THRESHOLD(FIT_SIZES_MIN, 3)
/* Tensors of one line in one step: two may be what a model takes side by side; more are samples, put together. */
#define FIT_SAMPLES_MIN THRESHOLD(FIT_SAMPLES_MIN, 3)
/*
 * Share of the variance of peaks that the batch's size explains: of four points at random a line explains a third on
 * average, and seldom nearly all. What a batch alone decides is above 0.99; other things that vary take the rest.
 */
#define FIT_R_SQUARED_MIN THRESHOLD(FIT_R_SQUARED_MIN, 0.95)
/* Share of a line's squared errors that a parabola may leave: of five random points it leaves two thirds. */
#define FIT_CURVE_LEAVES THRESHOLD(FIT_CURVE_LEAVES, 0.25)
/*
 * Share of the variance that a line may leave and is exact: what the allocator's rounding makes of a line is below
 * it.
 */
#define FIT_LINE_EXACT THRESHOLD(FIT_LINE_EXACT, 1e-5)
/*
 * Difference of two fits' shares within which the larger tensor stands for both: a mask or targets are as long as
 * their batch.
 */
#define FIT_ALIKE THRESHOLD(FIT_ALIKE, 0.01)

/* ---- without steps --------------------------------------------------------------------------- */

/*
 * Calls of a model from which on growth is by calls, and not by events: of fewer readings neither a break nor an outlier
 * can be told (READINGS_TO_BREAK).
 */
#define CALLS_MIN THRESHOLD(CALLS_MIN, 8)

#endif
