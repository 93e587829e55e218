/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of why memory ran out: what decides, in which unit, and why it is about so large. docs/diagnosis.md
 * lists which planted jobs are told otherwise when one is a quarter smaller or larger. A "part" divides: 5 is a
 * fifth.
 */
#ifndef VT_OOM_THRESHOLDS_H
#define VT_OOM_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/* ---- any cause ------------------------------------------------------------------------------- */

/*
 * Part of what is allocated that a cause must explain, beside all that was lacking. It is to be worth a programmer's
 * day: with half as much, small finds would stand before the sum that is the truth; with twice as much, of three
 * things that hold a third each and half of that in vain, none would be told.
 */
#define MATTERS_PART THRESHOLD_RATIO(MATTERS_PART, 5)
/*
 * Part of what can be had that an advised size leaves free, for pieces beside the tensors that the curve does not
 * show. Jobs at other batches had most often a few percent of them, up to 14%. Without it an advised batch fails
 * again; with twice as much it is smaller than need be.
 */
#define FITTING_SPARE_PART THRESHOLD_RATIO(FITTING_SPARE_PART, 20)
/*
 * Part of a cause that a census must have seen, with a keeper, to prove it: most of it. Less of it may be kept by
 * others.
 */
#define SEEN_PART THRESHOLD_RATIO(SEEN_PART, 2)
/*
 * Part of what a step has made that a module must have, to be named as where most of it is. More than half is one
 * module.
 */
#define MOST_OF_STEP_PART THRESHOLD_RATIO(MOST_OF_STEP_PART, 2)
/*
 * Part of what is allocated from which on a second category is told beside the first: 1% is a figure that may be
 * acted on.
 */
#define SECOND_PART THRESHOLD_RATIO(SECOND_PART, 100)
/*
 * Pixels: inputs [n, 3, height, width] are pictures from so many each way. The smallest data sets have 28 and 32;
 * with smaller ones, three points or colours of a patch would be meant.
 */
#define PICTURE_SIDE_MIN THRESHOLD(PICTURE_SIDE_MIN, 16)

/* ---- outside PyTorch ------------------------------------------------------------------------- */

/*
 * Part of the device, or bytes, that other processes must hold. A desktop and its browser hold up to a gigabyte;
 * that is nobody's mistake on a card of 80 GB, but a twentieth of one of 8 GB may be what was lacking.
 */
#define OTHERS_MIN_PART THRESHOLD_RATIO(OTHERS_MIN_PART, 20)
#define OTHERS_MIN_BYTES THRESHOLD(OTHERS_MIN_BYTES, 1ull << 30)
/*
 * Bytes of this process outside PyTorch that are its context, and what libraries load into it: contexts take up to
 * 600 MB (simgpu/profiles.def); the code and workspaces of cuBLAS, cuDNN and NCCL add to it. At half of it, programs
 * that use them all would be accused; at twice as much, a library that takes a gigabyte is not seen.
 */
#define CONTEXT_AND_LIBRARIES_MAX_BYTES THRESHOLD(CONTEXT_AND_LIBRARIES_MAX_BYTES, 1ull << 30)

/* ---- pieces ---------------------------------------------------------------------------------- */

/*
 * Part of what is reserved that is cached and would have held the request: any allocator leaves a few percent
 * between blocks. At a fifth, requests that fail for pieces are told a sum; at a twentieth, sums that fail beside
 * usual pieces would be called fragmentation.
 */
#define PIECES_PART THRESHOLD_RATIO(PIECES_PART, 10)

/*
 * Part of outputs that may be kept on purpose, from which on pieces that lie unused are why memory is short: without them the program
 * would have gone on for half as long again.
 */
#define MEANT_PART THRESHOLD_RATIO(MEANT_PART, 2)
/*
 * The same where the pieces would have held it only together with what the driver has left. Half: where less is in
 * pieces, most of the memory is in use, and a smaller sum would do.
 */
#define PIECES_WITH_REST_PART THRESHOLD_RATIO(PIECES_WITH_REST_PART, 2)

/* ---- graphs ---------------------------------------------------------------------------------- */

/*
 * Steps of training before the name of a function, such as validate(), is believed: the second forward of a step may
 * be of another model, or a check before training, and no pass has gone through it yet. An epoch has many more.
 */
#define EVALUATION_STEPS_MIN THRESHOLD(EVALUATION_STEPS_MIN, 4)
/*
 * Calls of a model whose graphs are there at the same time, before it is said that calls pile up. Two are usual: a
 * model that is called for both of a pair, a generator and a critic.
 */
#define OPEN_CALLS_MIN THRESHOLD(OPEN_CALLS_MIN, 3)
/*
 * Tensors that a node of a graph saves, at most on average: a convolution its input, a normalisation its input and two figures. Of
 * fewer nodes than that makes of what is held something else holds the rest.
 */
#define NODE_SAVES THRESHOLD(NODE_SAVES, 4)
/* Part of the open graphs that is alike from call to call. Most of it: else one large call is what holds memory. */
#define OPEN_REPEATED_PART THRESHOLD_RATIO(OPEN_REPEATED_PART, 2)
/*
 * Part of all that is allocated that the calls and their batches hold: less, and something else is the larger half.
 */
#define NO_BACKWARD_PART THRESHOLD_RATIO(NO_BACKWARD_PART, 2)
/* Part of the graphs that their batches take, from which on the batches are told, too. */
#define GRAPH_BATCHES_PART THRESHOLD_RATIO(GRAPH_BATCHES_PART, 2)

/* ---- what steps leave ------------------------------------------------------------------------ */

/*
 * Steps from one that left something to the next, on average: up to here it is told as of nearly every step, a
 * matter of words.
 */
#define KEPT_NEARLY_EVERY THRESHOLD(KEPT_NEARLY_EVERY, 1.2)
/* The same, from which on it is told as now and then, with the interval. */
#define KEPT_NOW_AND_THEN THRESHOLD_RATIO(KEPT_NOW_AND_THEN, 2)
/* Part of what is kept that has a graph: most of it, else it is told as tensors. */
#define GRAPH_KEPT_PART THRESHOLD_RATIO(GRAPH_KEPT_PART, 2)
/* Blocks of one stack that passes have gone by: fewer are made once, as a workspace is. */
#define PASSED_CALLS_MIN THRESHOLD(PASSED_CALLS_MIN, 3)
/* Stacks with such blocks: one or two are results that something keeps. */
#define PASSED_STACKS_MIN THRESHOLD(PASSED_STACKS_MIN, 3)
/*
 * Share of kept graphs that results alone would take, from which on that is worth a word: else advice says that it
 * is nothing.
 */
#define RESULTS_MIN THRESHOLD(RESULTS_MIN, 0.02)
/* Share of what is kept that a second line must have to be told: the reader has three lines for them. */
#define PLACE_MIN THRESHOLD(PLACE_MIN, 0.1)

/* ---- models of one class --------------------------------------------------------------------- */

/* Models: two of a class may be a model and its average, or a pair that is compared. */
#define MODELS_ALIKE_MIN THRESHOLD(MODELS_ALIKE_MIN, 3)
/* Modules in one another by the same attribute: two are an adapter around a layer that has such an attribute itself. */
#define NESTED_MIN THRESHOLD(NESTED_MIN, 3)

/*
 * Tensors alike that one call of one module, or one line, has saved within a step, to be told as rounds of a loop: fewer may be written out,
 * as two views of a picture or the four heads of a model.
 */
#define ROUNDS_MIN THRESHOLD(ROUNDS_MIN, 8)

/* ---- what calls leave ------------------------------------------------------------------------ */

/*
 * Tensors that one line has kept, and batches since: a dozen evaluated batches are usual, a handful of tensors of
 * one line have models that are called for several inputs.
 */
#define OUTPUTS_MIN THRESHOLD(OUTPUTS_MIN, 8)
/*
 * Requests like the one that failed, for each call that keeps something: all but one in five, as the last one is not
 * through.
 */
#define STILL_KEPT THRESHOLD(STILL_KEPT, 0.8)
/*
 * Times the average number of tensors from call to call that the longest run may have: what is loaded at once is one
 * run.
 */
#define RUN_TIMES THRESHOLD_RATIO(RUN_TIMES, 2)
/*
 * Part of forward's blocks made by layers that the program itself calls one by one: from most on nothing tells a
 * model's calls.
 */
#define BY_LAYERS_PART THRESHOLD_RATIO(BY_LAYERS_PART, 2)

/* ---- growing tensors and caches -------------------------------------------------------------- */

/* Part of what is allocated that they hold; as MATTERS_PART, but also where nothing was lacking. */
#define CACHE_PART THRESHOLD_RATIO(CACHE_PART, 5)
/* Tensors that are there twice, before and after they grew: one or two are, where each is replaced as it grows. */
#define TWICE_MIN THRESHOLD(TWICE_MIN, 3)
/*
 * Steps of the series by which a request may be longer than the latest, to be the next: one, and another for what is
 * added to it.
 */
#define NEXT_STEPS THRESHOLD_RATIO(NEXT_STEPS, 2)
/*
 * Part of the length by which a cache in place must be longer to be advised: 2% is below what the estimate is good
 * for.
 */
#define LONGER_PART THRESHOLD_RATIO(LONGER_PART, 50)
/*
 * Tensors of a list that are together as large as what was asked for: sums of two or three tensors come out at a
 * request's size by chance, since sizes in a model are multiples of each other.
 */
#define LIST_MIN THRESHOLD(LIST_MIN, 4)

/* ---- the batch ------------------------------------------------------------------------------- */

/*
 * Share of a batch that is padding: batches of mixed lengths have a fifth to a third, which sorting by length saves
 * little of.
 */
#define PADDING_MIN THRESHOLD(PADDING_MIN, 0.3)
/*
 * Share of what can be had that the batch needs, by the curve of the steps before, which is off by a percent or two.
 */
#define NEARLY_FULL THRESHOLD(NEARLY_FULL, 0.98)
/* Times what can be had beyond which no figure is printed: the curve is far from what it was fitted to. */
#define FAR_TIMES THRESHOLD_RATIO(FAR_TIMES, 8)
/*
 * Share of what was needed until the request failed that the curve must give; below, it does not hold for this size.
 */
#define CURVE_HOLDS_MIN THRESHOLD(CURVE_HOLDS_MIN, 0.97)
/* Steps before the failing one, that show what is usual. The first two have warm-up, and no optimizer state. */
#define STEPS_BEFORE_MIN THRESHOLD(STEPS_BEFORE_MIN, 3)
/*
 * Times the largest before, of the same line, from which on a tensor is larger: lengths of batches vary by less,
 * mostly.
 */
#define LARGER_TIMES THRESHOLD_RATIO(LARGER_TIMES, 2)
/*
 * Steps from which on such a batch is out of line, and what grows with it follows from it: that the latest of so many batches
 * is the largest by chance is one in twenty. Of a few, any may be.
 */
#define OUT_OF_LINE_STEPS THRESHOLD(OUT_OF_LINE_STEPS, 20)
/* Times a tensor that its line may hold: with two such, it is the line and not the one tensor that is out of line. */
#define SPIKE_ALONE_TIMES THRESHOLD_RATIO(SPIKE_ALONE_TIMES, 2)
/* Part of the device that a tensor that is larger than before must take: less is no reason to run out by. */
#define SPIKE_PART THRESHOLD_RATIO(SPIKE_PART, 10)
/* Part of the tensor that another must have to be told as what it may be made from. */
#define ANOTHER_PART THRESHOLD_RATIO(ANOTHER_PART, 2)

/* ---- tensors that are larger than they need be ----------------------------------------------- */

/*
 * Part of the rows of logits that a copy of them must have: labels are shifted by one, and padding may be left out.
 */
#define UPCAST_ROWS_PART THRESHOLD_RATIO(UPCAST_ROWS_PART, 2)
/*
 * Part of a transform's request that its 16-bit data must have: complex64 takes 4 times as much, twice the length
 * doubles it, and its workspace doubles it again. Beyond twice that it is not this data that was transformed.
 */
#define FFT_SOURCE_PART THRESHOLD_RATIO(FFT_SOURCE_PART, 32)
/* Part of the device that a copy must take: less would be missing in any case, and the sum is the better word. */
#define COPY_PART THRESHOLD_RATIO(COPY_PART, 10)

/* ---- the optimizer --------------------------------------------------------------------------- */

/*
 * Steps with new state: layers that are unfrozen one after the other are fewer, mostly; L-BFGS adds to its history
 * for a hundred steps.
 */
#define HISTORY_STEPS THRESHOLD(HISTORY_STEPS, 4)
/* Part of the state that came later than in half as many steps: most of it. */
#define HISTORY_LATER_PART THRESHOLD_RATIO(HISTORY_LATER_PART, 2)
/* Part of the later state that new parameters are, where it is theirs: Adam keeps two of a parameter's size, few optimizers more. */
#define HISTORY_NEW_PART THRESHOLD_RATIO(HISTORY_NEW_PART, 4)
/*
 * Part of what is allocated that the temporaries of an update take: below, nothing is won by making them one after
 * the other.
 */
#define TEMPORARIES_PART THRESHOLD_RATIO(TEMPORARIES_PART, 20)

/* ---- ranks ----------------------------------------------------------------------------------- */

/*
 * Share of forward's allocations that another rank must have made to be compared: the rest is what one is ahead of
 * the other.
 */
#define AS_FAR THRESHOLD(AS_FAR, 0.9)
/* Part of what a rank needed by which it needs more than all others: parts of a model never come out even. */
#define IMBALANCE_PART THRESHOLD_RATIO(IMBALANCE_PART, 10)
/*
 * Part of the buckets that gradients must be for buckets to be idle: where gradients are views, they have few bytes
 * of their own.
 */
#define BUCKETS_COPIED_PART THRESHOLD_RATIO(BUCKETS_COPIED_PART, 8)
/* Part of the gradients by which buckets must exceed them: padding of buckets is less. */
#define BUCKETS_IDLE_PART THRESHOLD_RATIO(BUCKETS_IDLE_PART, 20)
/*
 * Part of what is allocated that is in buckets and need not be: gradients are a quarter of what Adam trains, at
 * most.
 */
#define BUCKETS_MATTER_PART THRESHOLD_RATIO(BUCKETS_MATTER_PART, 8)

/* ---- the host's memory ----------------------------------------------------------------------- */

/*
 * Part of the group's limit, or bytes without one, by which one killed process held more than the next to be told as
 * the killer's.
 */
#define KILLED_CLEAR_PART THRESHOLD_RATIO(KILLED_CLEAR_PART, 4)
#define KILLED_CLEAR_BYTES THRESHOLD(KILLED_CLEAR_BYTES, 1ull << 30)

#endif
