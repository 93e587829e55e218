/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of the patterns: what decides, in which unit, and why it is about so large. A "part" divides: 5 is a fifth.
 */
#ifndef VT_PATTERNS_THRESHOLDS_H
#define VT_PATTERNS_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/* ---- kept tensors ----------------------------------------------------------------------------- */

/*
 * Steps that have left something at a line. What optimizers and caches make comes in the first two or three; so does
 * chance. Twice as many, and leaks that fill the device in seven steps would not be seen.
 */
#define KEPT_STEPS_MIN THRESHOLD(KEPT_STEPS_MIN, 4)
/*
 * Steps before the failing one at which the line must have left something still: the failing step has not come so
 * far, and the one before may leave nothing by chance. Older ones are of a phase that is over.
 */
#define KEPT_RECENT_STEPS THRESHOLD(KEPT_RECENT_STEPS, 3)
/*
 * Part of the steps from first to last that have left something: most. Of fewer it is tried whether they come
 * regularly.
 */
#define KEPT_MOST_STEPS_PART THRESHOLD_RATIO(KEPT_MOST_STEPS_PART, 2)
/*
 * Times the average interval that the longest may have, and the time since the last, where a counter makes them
 * come.
 */
#define REGULAR_INTERVALS THRESHOLD(REGULAR_INTERVALS, 1.5)

/* ---- kept graphs ------------------------------------------------------------------------------ */

/* Blocks that a graph keeps of a step, at least: one or two are results. */
#define GRAPH_BLOCKS_MIN THRESHOLD(GRAPH_BLOCKS_MIN, 3)
/*
 * Share of what forward allocated, from the first to the last of them, that stays: a layer saves one of up to three;
 * of results that are kept alone, all between is gone.
 */
#define GRAPH_DENSITY_MIN THRESHOLD(GRAPH_DENSITY_MIN, 0.33)
/* Share of the steps that must have left as much as a graph: the first and the last may have a part. */
#define GRAPH_STEPS_MIN THRESHOLD(GRAPH_STEPS_MIN, 0.8)

/* ---- open graphs ------------------------------------------------------------------------------ */

/* Part of the repeated bytes that were born after the last input: more are of one call that took all of them. */
#define ONE_BATCH_PART THRESHOLD_RATIO(ONE_BATCH_PART, 2)

/* ---- growing tensors and caches --------------------------------------------------------------- */

/*
 * Growths of a size from one tensor of a line to the next: six sizes in random order rise so in one case of 720,
 * four in one of 24.
 */
#define SERIES_MIN THRESHOLD(SERIES_MIN, 5)
/* Part of the growing sizes that may be other ones: a cache starts again, or a batch of another shape is between. */
#define SERIES_OTHERS_PART THRESHOLD_RATIO(SERIES_OTHERS_PART, 8)
/*
 * Share of the steps of a series that are alike: by concatenation it grows evenly, batches that become longer do
 * not.
 */
#define SERIES_EVEN THRESHOLD(SERIES_EVEN, 0.75)
/* Part of a line's bytes in older sizes from which on it is a list of them, and not one that grows. */
#define SERIES_PAST_PART THRESHOLD_RATIO(SERIES_PAST_PART, 2)
/* Part of what is allocated below which a block is not looked at: a thousand of them are nothing. */
#define GROWING_SMALL_PART THRESHOLD_RATIO(GROWING_SMALL_PART, 1000)
/* Tensors of a cache: keys and values of one layer. */
#define CACHE_TENSORS_MIN THRESHOLD(CACHE_TENSORS_MIN, 2)

/* ---- caches by shape -------------------------------------------------------------------------- */

/* Shapes that a line keeps, one of each: fewer are two inputs of a model, for training and for evaluation. */
#define SHAPES_MIN THRESHOLD(SHAPES_MIN, 4)
/*
 * Share of them with a shape that no other has: a cache by shape has all but those that were made before it was
 * asked.
 */
#define ONE_PER_SHAPE_MIN THRESHOLD(ONE_PER_SHAPE_MIN, 0.95)

/* ---- attention -------------------------------------------------------------------------------- */

/*
 * Rows and columns of a matrix of attention: a smaller one takes 128 KiB in 16 bits, and many other tensors have two
 * small dimensions that are alike.
 */
#define MATRIX_MIN THRESHOLD(MATRIX_MIN, 256)
/* Width of a head: the smallest in use is 16; below 8 it is a number of heads, or of colours. */
#define HEAD_WIDTH_MIN THRESHOLD(HEAD_WIDTH_MIN, 8)
/* Part of what is allocated below which matrices that are no squares are not looked at, of which there are many. */
#define ATTENTION_SMALL_PART THRESHOLD_RATIO(ATTENTION_SMALL_PART, 200)
/*
 * Blocks before the request among which its queries and keys are: a layer makes a dozen to its product, with all its
 * masks.
 */
#define ATTENTION_RECENT THRESHOLD(ATTENTION_RECENT, 64)

/* ---- vocabularies ----------------------------------------------------------------------------- */

/*
 * Features that may be a vocabulary, where a loss over classes is computed of them: small ones of speech have some
 * thousand words; a classifier of a thousand classes has no logits that are worth parting.
 */
#define VOCABULARY_MIN THRESHOLD(VOCABULARY_MIN, 4096)
/*
 * Last dimension that is taken for a vocabulary's: layers have up to 14336 and some 16384, vocabularies begin at
 * 30000 but for small ones of speech. Half of it takes a layer's width for one; twice misses those of 32000.
 */
#define VOCABULARY_SURE THRESHOLD(VOCABULARY_SURE, 16384)

#endif
