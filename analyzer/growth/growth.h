/* SPDX-License-Identifier: MIT */
/*
 * Does a series of readings grow, how fast, and when does it reach a limit?
 *
 * A *reading* is a step and the bytes held at it. What comes before a break in the series is left out as
 * *warm-up*: first steps that create optimizer state, or a one-off jump, after which it stays. The *slope* of
 * the rest is the median of the slopes of all pairs (Theil and Sen) with Sen's 95% interval by ranks, so that
 * spikes do not move it. Forecasts are least squares, linear and quadratic, without readings that lie far
 * off, with 95% prediction intervals. Where the errors of neighbouring readings hang together, as where tensors of
 * varying sizes stay, breaks, bends and intervals are judged by what each step adds instead. Pure; threads may share
 * the input.
 */
#ifndef VT_GROWTH_H
#define VT_GROWTH_H

#include <stdbool.h>
#include <stddef.h>

/* Pairs are counted, n^2 of them: series are to be thinned out to so many first. */
#define GROWTH_READINGS_MAX 1024

struct growth_reading {
	double step, bytes;
};

enum growth_shape {
	GROWTH_UNKNOWN, /* fewer than 4 readings after warm-up */
	GROWTH_NONE,    /* the slope's interval has zero in it, or lies below; of what drifts and never falls, that by ranks */
	GROWTH_STEADY,
	GROWTH_ACCELERATING,
	GROWTH_DECELERATING,
};
extern const char *const growth_shape_names[]; /* "unknown", "none", "steady", ... */

/*
 * The readings as a sum of what each step has added by chance, at a pace that stays the same (degree 1) or changes evenly
 * (degree 2): it goes on from the last of them.
 */
struct growth_walk {
	double step, bytes;         /* of the last reading */
	double pace, bend, centre;  /* a step adds pace + bend * (step - centre) */
	double weight, bend_weight; /* variance / weight is that of the pace, ... */
	double variance;            /* that each further step adds */
	double t_95;                /* of Student's distribution with the degrees of freedom left */
};

/* A polynomial of degree 1 or 2 through the readings. */
struct growth_fit {
	bool is_known;   /* enough readings for it, and for an error */
	double value[3]; /* of ((step - centre) / scale)^0, 1, 2 */
	double centre, scale;
	double covariance[3][3];
	double error_bytes; /* residual standard deviation, with the degrees of freedom left */
	double t_95;        /* of Student's distribution with those */
	bool may_walk;      /* chance may be adding up: bounds are the wider ones of the fit's and the walk's */
	struct growth_walk walk;
	double aicc;        /* Akaike's criterion, corrected for few readings: the lower the better */
	/* When it reaches the limit: NaN without a limit; infinity = never. */
	double limit_step, limit_step_low, limit_step_high;
};

struct growth {
	size_t nr_warm_up, nr_used;          /* readings */
	size_t nr_outliers;                  /* of those used, left out of the fits */
	double slope, slope_low, slope_high; /* bytes per step; NaN where unknown */
	enum growth_shape shape;
	struct growth_fit linear, quadratic;
	bool drifts;             /* errors of neighbouring readings hang together */
	bool believes_quadratic; /* its last term is not zero, and it has the lower AICc */
	bool may_bend;           /* the linear fit is believed, but few readings or signs of a bend leave it open */
	/*
	 * Between which steps the limit is reached: the believed fit's bounds, where it may bend the wider ones of both; where
	 * it slows down, from the step on at which the latest pace would reach it.
	 */
	double limit_step_low, limit_step_high;
};

/*
 * `reading` is sorted by step, nr <= GROWTH_READINGS_MAX, all values finite. limit_bytes NaN: there is none.
 */
void growth_find(struct growth *g, const struct growth_reading *reading, size_t nr, double limit_bytes);

/* What the readings are made of does not bend: so they do by chance, and the linear fit is believed. */
void growth_believe_linear(struct growth *g, double last_step, double limit_bytes);

/* The fit that is believed. */
const struct growth_fit *growth_believed(const struct growth *g);

#endif
