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

/* ---- without steps --------------------------------------------------------------------------- */

/*
 * Calls of a model from which on growth is by calls, and not by events: of fewer readings neither a break nor an outlier
 * can be told (READINGS_TO_BREAK).
 */
#define CALLS_MIN THRESHOLD(CALLS_MIN, 8)

#endif
