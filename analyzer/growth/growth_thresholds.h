/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of what grows from step to step: what decides, in which unit, and why it is about so large. A "part"
 * divides: 2 is a half. Z_95 of pace.c and student_95() of growth.c are quantiles of 95% intervals, by definition.
 */
#ifndef VT_GROWTH_THRESHOLDS_H
#define VT_GROWTH_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/* ---- a series of readings -------------------------------------------------------------------- */

/* Readings without which nothing is said: a parabola goes through any three. */
#define READINGS_MIN THRESHOLD(READINGS_MIN, 4)
/*
 * Readings from which on outliers and breaks are looked for: two lines have four parameters and the place of the
 * break; with fewer, a break or an outlier explains anything.
 */
#define READINGS_TO_BREAK THRESHOLD(READINGS_TO_BREAK, 8)
/*
 * How much better, by BIC, two lines must be than one parabola before the first is called warm-up: 10 is "very
 * strong" evidence, by Kass and Raftery. Half of it is reached by chance, since every reading is tried as a break.
 */
#define BREAK_EVIDENCE THRESHOLD(BREAK_EVIDENCE, 10)
/*
 * Breaks that are looked for, one after the other: the allocator's warm-up, the optimizer's, and one that the
 * program has made.
 */
#define BREAKS_MAX THRESHOLD(BREAKS_MAX, 3)
/* Part of the readings, and readings, that must come after a break, to show that what is then goes on. */
#define AFTER_BREAK_PART THRESHOLD_RATIO(AFTER_BREAK_PART, 4)
#define AFTER_BREAK_MIN THRESHOLD(AFTER_BREAK_MIN, 4)
/*
 * Robust standard deviations beyond which a reading is no part of a fit: of normal errors one in a billion is;
 * spikes of an evaluation are hundreds away.
 */
#define OUTLIER_SIGMAS THRESHOLD(OUTLIER_SIGMAS, 6)
/* Part of the readings that may be outliers: so many more are no spikes, the readings scatter. */
#define OUTLIERS_PART THRESHOLD_RATIO(OUTLIERS_PART, 4)
/*
 * Share of the readings' size that an error must have to be one: ten digits of a double remain, and squares of them
 * are summed.
 */
#define ERROR_EXACT THRESHOLD(ERROR_EXACT, 1e-7)
/* The same of a line on either side of a break: steps are small beside the level, and rounding is of all of it. */
#define BREAK_EXACT THRESHOLD(BREAK_EXACT, 1e-6)
/*
 * Readings of which it can be told whether their errors hang together: of fewer, Von Neumann's ratio scatters as far
 * as it differs.
 */
#define DRIFT_KNOWN THRESHOLD(DRIFT_KNOWN, 20)
/*
 * Von Neumann's ratio, the mean square of neighbouring errors' differences to that of the errors, is 2 of
 * independent ones, and near 0 of those of a sum of random parts. Of 20 independent ones it is below 1.5 in one case
 * of eight; the price is only a wider interval.
 */
#define DRIFT_RATIO THRESHOLD(DRIFT_RATIO, 1.5)
/*
 * The same, of few readings of which a curve was taken off: a sum's may be above 1, too, so anything below 2 may be
 * one.
 */
#define MAY_DRIFT_RATIO THRESHOLD_RATIO(MAY_DRIFT_RATIO, 2)
/*
 * Part of the errors' mean square that means of them in pairs must have to be looked at: independent errors lose
 * half with each pairing, so that after seven nothing is left to drift.
 */
#define LEAST_DRIFT_PART THRESHOLD_RATIO(LEAST_DRIFT_PART, 100)
/*
 * Times the largest rise after it that makes a rise a jump: of a few that vary as batches do, the largest is seldom
 * twice the next.
 */
#define JUMP_TIMES THRESHOLD_RATIO(JUMP_TIMES, 3)
/*
 * Standard deviations that make another pace after a break: 2 would be for one break, and every reading is tried as
 * one.
 */
#define PACE_SIGMAS THRESHOLD(PACE_SIGMAS, 4)

/*
 * Part of the readings before the first rise for which a level may stay the same after it: as long a rest again, and
 * the first one was no warm-up, the series is one of rare rises.
 */
#define ONSET_STAYS_PART THRESHOLD_RATIO(ONSET_STAYS_PART, 2)

/* ---- does it grow ---------------------------------------------------------------------------- */

/* Rises from which on growth is believed: fewer are a few steps that differ. */
#define RISES_MIN THRESHOLD(RISES_MIN, 3)
/*
 * Share of its pace at which growth must go on in the last third: what fills up and ends has less, what scatters has
 * more.
 */
#define GOES_ON_MIN THRESHOLD(GOES_ON_MIN, 0.25)
/*
 * Part of the growth of what was asked for that blocks must show as well: their sizes are up to 1 MiB larger, as it
 * comes.
 */
#define ASKED_SHOWN_PART THRESHOLD_RATIO(ASKED_SHOWN_PART, 2)
/* Share of what grows that shrinks elsewhere, from which on memory only changes hands. */
#define MOVES_MIN THRESHOLD(MOVES_MIN, 0.5)
/* Without steps: events for each block that stays. A program that is being loaded has one or two, one at work has tens. */
#define EVENTS_OF_WORK THRESHOLD_RATIO(EVENTS_OF_WORK, 4)
/* Without steps: share of all memory by which a stack must change. A part of the work ends anywhere in a request. */
#define NOISE_MAX THRESHOLD(NOISE_MAX, 0.001)
/*
 * Share of the peak that growth must have reached to be a finding, not a note; else it must reach the limit within
 * the horizon.
 */
#define FINDING_MIN THRESHOLD(FINDING_MIN, 0.01)
/*
 * Part of the latest step's number below which a log's steps have begun again: a resumed run goes back a little, not
 * to its beginning.
 */
#define RESTART_PART THRESHOLD_RATIO(RESTART_PART, 2)

/* ---- what it is ------------------------------------------------------------------------------ */

/*
 * Share of the growth of tensors that must be older than a step: a step's own are up to half of it where few steps
 * are left.
 */
#define ACCUMULATED_MIN THRESHOLD(ACCUMULATED_MIN, 0.4)
/*
 * Share of a place's blocks that must be of steps in which a graph is; of steps with a whole graph; of readings with
 * as many blocks. The first and the last may have a part.
 */
#define SAME_STEPS_MIN THRESHOLD(SAME_STEPS_MIN, 0.8)
/* Readings with as many blocks as before, each larger: three rises, as RISES_MIN. */
#define SEQUENCE_READINGS_MIN THRESHOLD(SEQUENCE_READINGS_MIN, 4)
/* Part of what a place keeps that forward has made: most of it, to be told as results of a graph. */
#define OF_FORWARD_PART THRESHOLD_RATIO(OF_FORWARD_PART, 2)
/*
 * Blocks that one stack has freed, and part of all that were kept, to tell who lets go: most of them, and not a
 * single one.
 */
#define FREED_MIN THRESHOLD(FREED_MIN, 2)
#define FREED_PART THRESHOLD_RATIO(FREED_PART, 2)
/* Times a step's growth that a first reading, or a break, may have and be of the first step itself. */
#define FIRST_STEP_TIMES THRESHOLD(FIRST_STEP_TIMES, 1.5)
/*
 * Steps by which the first block that is kept may be older than the first step by the readings: a reading is of a
 * step's end.
 */
#define FIRST_STEP_EARLIER THRESHOLD(FIRST_STEP_EARLIER, 2)
/*
 * Times a step's growth that a first reading may hold where growth began with it: what the second step is at may be
 * in it.
 */
#define FIRST_READING_TIMES THRESHOLD(FIRST_READING_TIMES, 3.5)

/* ---- does it follow the batch ---------------------------------------------------------------- */

/*
 * Share of the steps in which a stack makes a shape that was not there before: some batches are as long as one
 * before.
 */
#define NEW_SHAPES_MIN THRESHOLD(NEW_SHAPES_MIN, 0.8)
/* Share of what forward's stacks allocate that has new shapes: all but what does not depend on the batch. */
#define VARYING_MIN THRESHOLD(VARYING_MIN, 0.75)
/*
 * Share of the latest growths for which a piece is there, as large as the growth: what is put together of pieces is
 * no batch.
 */
#define PIECES_MIN THRESHOLD(PIECES_MIN, 0.8)
/* Pieces of varying size that may come on at a time: of more, sums of any two sizes would be found. */
#define PIECES_AT_ONCE THRESHOLD(PIECES_AT_ONCE, 4)
/*
 * Part of the rises by which a stack may have more shapes and be one that makes the pieces: others make tensors of
 * all sizes.
 */
#define FEW_SHAPES_PART THRESHOLD_RATIO(FEW_SHAPES_PART, 4)

#endif
