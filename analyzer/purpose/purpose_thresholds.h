/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of what blocks are for: what decides, in which unit, and why it is about so large. A "part" divides: 2
 * is a half.
 */
#ifndef VT_PURPOSE_THRESHOLDS_H
#define VT_PURPOSE_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/*
 * Shapes that one line has made, from which on it may make a set of tensors, as a copy of a model: a batch has one
 * or two, inputs and targets.
 */
#define REMADE_SHAPES_MIN THRESHOLD(REMADE_SHAPES_MIN, 3)
/* Part of the parameters' sizes that it must have made: most of them; the rest may be frozen, or shared. */
#define REMADE_PART THRESHOLD_RATIO(REMADE_PART, 2)
/*
 * Part by which a row of all parameters may differ from their sum: padding to a round length, or buffers that are
 * left out, are less than 2%.
 */
#define FLAT_PADDING_PART THRESHOLD_RATIO(FLAT_PADDING_PART, 64)
/* Part of the live parameters that one line must have copies of, to make copies and no data: most of them. */
#define COPIES_PART THRESHOLD_RATIO(COPIES_PART, 2)
/* Part of those like it that ended, and had stayed so long: most of them tell of one whose end is not seen. */
#define STAYED_PART THRESHOLD_RATIO(STAYED_PART, 2)
/* Blocks of one line that are live at the end, from which on they stay: a batch and the next one may be. */
#define STAYS_BLOCKS THRESHOLD(STAYS_BLOCKS, 3)
/*
 * Dictionaries within each other that copy.deepcopy() goes through and is at a module's or an optimizer's state: of
 * a batch they are two, at most.
 */
#define STATE_DEPTH_MIN THRESHOLD(STATE_DEPTH_MIN, 3)

#endif
