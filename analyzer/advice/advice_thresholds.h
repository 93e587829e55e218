/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of advice: what decides whether a change is advised and how far it goes, in which unit, and why it is about so
 * large. A "part" divides: 256 is a 256th. What follows from an optimizer's or a loss's formula is no threshold.
 */
#ifndef VT_ADVICE_THRESHOLDS_H
#define VT_ADVICE_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/* ---- any advice ------------------------------------------------------------------------------ */

/*
 * Share of the peak that a change must save to be said: less is within what two runs of one program differ by, and nobody
 * changes a program for it.
 */
#define ADVICE_LEAST THRESHOLD(ADVICE_LEAST, 0.02)
/*
 * Share of the peak that another step's peak must have, for it to be looked at instead: the one that is whole in the
 * recording tells more, and a hundredth less is the same peak.
 */
#define NEARLY_PEAK THRESHOLD(NEARLY_PEAK, 0.99)

/* ---- a smaller batch ------------------------------------------------------------------------- */

/*
 * Percent of what can be had that an advised batch leaves free: recorded jobs at other batches had up to 14% in pieces
 * beside their tensors. With less the advised batch may fail again.
 */
#define ROOM_PERCENT THRESHOLD(ROOM_PERCENT, 15)
/*
 * Percent of the optimizer's state that is counted where its first update is still to come: it lays state between pieces,
 * which took up to a third more in recorded jobs.
 */
#define STATE_PERCENT THRESHOLD(STATE_PERCENT, 130)
/* Multiples in which a length is advised: matrix units work on 8 elements of 16 bits at a time. */
#define LENGTH_STEP THRESHOLD(LENGTH_STEP, 8)
/* Results of forward that variables still hold while the next is computed: the latest, and the one before it. */
#define RESULTS_HELD 2

/* ---- layers ---------------------------------------------------------------------------------- */

/* Layers of a list that checkpointing is advised for: of two, one is always there as a whole. */
#define LAYERS_MIN THRESHOLD(LAYERS_MIN, 3)
/* Share of what a layer keeps by which others may differ and still be like it: padding and rounding differ. */
#define LAYERS_ALIKE THRESHOLD(LAYERS_ALIKE, 0.1)
/* Parameters of one layer, by which their shapes repeat: one repeats by chance; no layer in use has more than some tens. */
#define PERIOD_MIN THRESHOLD(PERIOD_MIN, 2)
#define PERIOD_MAX THRESHOLD(PERIOD_MAX, 256)
/* Gradients of the largest size that a layer's backward needs at a time: of its result, its input and one between. */
#define GRADIENTS_MAX THRESHOLD(GRADIENTS_MAX, 3)

/* ---- the loss -------------------------------------------------------------------------------- */

/* Matrices with so many rows that a vocabulary may have: an embedding and the one for logits; layers have more of a kind. */
#define HEADS_MAX THRESHOLD(HEADS_MAX, 2)
/* Tokens whose logits are worth computing in parts: fewer are one answer that is being written. */
#define TOKENS_MIN THRESHOLD(TOKENS_MIN, 64)

/* ---- the optimizer and ranks ----------------------------------------------------------------- */

/* Values of state for each of the parameters': Adam with amsgrad and a copy in float32 has four. More is no optimizer's. */
#define STATE_VALUES_MAX THRESHOLD(STATE_VALUES_MAX, 4)
/* Share of the parameters' bytes whose gradients must be known, to tell what each unit of FSDP has. */
#define GRADIENTS_ALL THRESHOLD(GRADIENTS_ALL, 0.99)
/* Ranks that an advice counts with where the job has one: a machine with several GPUs has most often eight. */
#define RANKS_USUAL THRESHOLD(RANKS_USUAL, 8)

/* ---- kept for nothing ------------------------------------------------------------------------ */

/* Events from the birth of what replaces a tensor to that one's end: an assignment ends it at once, but for temporaries. */
#define REPLACED_WITHIN THRESHOLD(REPLACED_WITHIN, 16)

#endif
