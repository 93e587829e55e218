/* SPDX-License-Identifier: MIT */
/*
 * What each step adds to a series of readings.
 *
 * A *pace* is the rise from one reading to the next, by step. What tensors of varying sizes leave behind is a sum of
 * random parts: it *drifts*, the errors of neighbouring readings hang together, and seem to bend and to break where
 * nothing has changed. Independent of each other are the paces then, and they tell breaks and bends apart from chance.
 * Pure; threads may share the input.
 */
#ifndef VT_PACE_H
#define VT_PACE_H

#include "analyzer/growth/growth.h"

#define PACE_PARTS 12

/* Do errors of neighbouring readings hang together? Overwrites error. */
bool pace_drifts(double *error, size_t nr);

/* Are they so few that this cannot be ruled out? */
bool pace_may_drift(const double *error, size_t nr);

/* The mean of the paces that end in readings `first` to `end` - 1, and the variance of that mean. */
double pace_mean(const struct growth_reading *r, size_t first, size_t end, double *variance);

/* The least of the paces. */
double pace_least(const struct growth_reading *r, size_t nr);

/* The reading after which it first changes, if it then never stays for half as long again; else 0. */
size_t pace_onset(const struct growth_reading *r, size_t nr);

/* Is the rise to reading `at` a jump, or the pace after it another than before? */
bool pace_breaks(const struct growth_reading *r, size_t nr, size_t at);

/* Does the pace rise (1) or fall (-1), by Kendall's test at 95% of pace_parts()? 0: neither. */
int pace_trend(const struct growth_reading *r, size_t nr);

/*
 * The walk of this degree that the readings are, by least squares of the paces; t_95 is the caller's. false: there are too
 * few of them.
 */
bool pace_walk(struct growth_walk *w, const struct growth_reading *r, size_t nr, int degree);

/* Where it is at a step ahead, and half the width of the 95% prediction interval there. */
double pace_walk_at(const struct growth_walk *w, double step, double *half_width);

/* The upper end of the 95% interval of its pace at the last reading. */
double pace_walk_latest(const struct growth_walk *w);

/* The paces, of more than PACE_PARTS those between means of as many parts of the readings. Returns how many. */
size_t pace_parts(const struct growth_reading *r, size_t nr, double value[static PACE_PARTS]);

#endif
