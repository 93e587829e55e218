/* SPDX-License-Identifier: MIT */
/* The rises of a series, and tests of them; see pace.h. */
#include "analyzer/growth/pace.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/growth/growth_thresholds.h"

/* Normal quantile of a 95% interval. */
#define Z_95 1.959964

static double von_neumann(const double *error, size_t nr)
{
	double squares = 0, differences = 0;

	for (size_t i = 0; i < nr; i++) {
		squares += error[i] * error[i];
		differences += i ? pow(error[i] - error[i - 1], 2) : 0;
	}
	return nr > 1 && squares > 0 ? differences / (double)(nr - 1) / (squares / (double)nr) : 0;
}

bool pace_may_drift(const double *error, size_t nr)
{
	return nr < DRIFT_KNOWN || (nr < 2 * DRIFT_KNOWN && von_neumann(error, nr) < MAY_DRIFT_RATIO);
}

/* least: mean square of errors that do not count. */
static bool errors_drift(double *error, size_t nr, double least)
{
	double squares = 0;

	for (size_t i = 0; i < nr; i++)
		squares += error[i] * error[i];
	if (nr < READINGS_MIN || squares < least * (double)nr)
		return false;
	if (von_neumann(error, nr) < DRIFT_RATIO)
		return true;
	if (nr < 2 * DRIFT_KNOWN)
		return false;
	/* Independent ones on top may hide it: they shrink in means, and it does not. */
	for (size_t i = 0; i < nr / 2; i++)
		error[i] = (error[2 * i] + error[2 * i + 1]) / 2;
	return errors_drift(error, nr / 2, squares / (double)nr / LEAST_DRIFT_PART);
}

bool pace_drifts(double *error, size_t nr)
{
	return errors_drift(error, nr, 0);
}

/* A reading's rise per step since the one before. */
static double pace(const struct growth_reading *r, size_t i)
{
	return r[i].step > r[i - 1].step ? (r[i].bytes - r[i - 1].bytes) / (r[i].step - r[i - 1].step) : 0;
}

double pace_mean(const struct growth_reading *r, size_t first, size_t end, double *variance)
{
	double n = (double)(end - first), sum = 0, squares = 0;

	for (size_t i = first; i < end; i++)
		sum += pace(r, i);
	for (size_t i = first; i < end; i++)
		squares += pow(pace(r, i) - sum / n, 2);
	*variance = n > 1 ? squares / (n - 1) / n : INFINITY;
	return sum / n;
}

double pace_least(const struct growth_reading *r, size_t nr)
{
	double least = INFINITY;

	for (size_t i = 1; i < nr; i++)
		least = fmin(least, pace(r, i));
	return least;
}

size_t pace_onset(const struct growth_reading *r, size_t nr)
{
	size_t onset = 0, stays = 0;

	while (onset + 1 < nr && r[onset + 1].bytes == r[onset].bytes)
		onset++;
	for (size_t i = onset + 1; i < nr; i++) {
		stays = r[i].bytes == r[i - 1].bytes ? stays + 1 : 0;
		if (ONSET_STAYS_PART * stays >= onset)
			return 0;
	}
	return onset;
}

bool pace_breaks(const struct growth_reading *r, size_t nr, size_t at)
{
	double largest = 0, before, after, variance, ignored;

	for (size_t i = at + 1; i < nr; i++)
		largest = fmax(largest, fabs(pace(r, i)));
	if (fabs(pace(r, at)) > JUMP_TIMES * largest)
		return true;
	if (at < 2)
		return false;
	before = pace_mean(r, 1, at, &ignored);
	after = pace_mean(r, at + 1, nr, &variance);
	/* As the paces after it scatter: those of a warm-up may be all different. */
	variance *= 1 + (double)(nr - at - 1) / (double)(at - 1);
	return fabs(before - after) > PACE_SIGMAS * sqrt(variance);
}

bool pace_walk(struct growth_walk *w, const struct growth_reading *r, size_t nr, int degree)
{
	double squares = 0, sum = 0;

	*w = (struct growth_walk){ 0 };
	if (nr < (size_t)degree + 2 || !(r[nr - 1].step > r[0].step))
		return false;
	w->step = r[nr - 1].step;
	w->bytes = r[nr - 1].bytes;
	w->weight = w->step - r[0].step;
	w->centre = (w->step + r[0].step) / 2;
	w->pace = (w->bytes - r[0].bytes) / w->weight;
	for (size_t i = 1; i < nr && degree > 1; i++) {
		double gap = r[i].step - r[i - 1].step, off = (r[i].step + r[i - 1].step) / 2 - w->centre;

		sum += gap * off * pace(r, i);
		w->bend_weight += gap * off * off;
	}
	w->bend = w->bend_weight > 0 ? sum / w->bend_weight : 0;
	for (size_t i = 1; i < nr; i++) {
		double off = (r[i].step + r[i - 1].step) / 2 - w->centre;

		squares += (r[i].step - r[i - 1].step) * pow(pace(r, i) - w->pace - w->bend * off, 2);
	}
	w->variance = squares / (double)(nr - 1 - (size_t)degree);
	return true;
}

/*
 * As pace_walk_at()'s parts, if a step's standard deviation is in proportion to its pace, as where more and more tensors
 * of varying sizes stay. Sums over the readings are those of evenly spaced ones.
 */
static double parts_of_growing(const struct growth_walk *w, double ahead, double off)
{
	double squares = pow(w->bend, 2) * w->bend_weight / w->weight, shift = off * w->bend;
	double mean_square = pow(w->pace, 2) + squares;
	double further = pow(w->pace + shift, 2) + pow(w->bend * ahead, 2) / 12;
	double known = mean_square / w->weight + 4 * w->pace * shift / w->weight + 1.8 * shift * shift / w->weight +
		       pow(w->pace * off, 2) / w->bend_weight;

	return mean_square > 0 ? (ahead * further + ahead * ahead * known) / mean_square : 0;
}

double pace_walk_at(const struct growth_walk *w, double step, double *half_width)
{
	double ahead = step - w->step, off = (step + w->step) / 2 - w->centre;
	double parts = ahead + ahead * ahead / w->weight;

	if (w->bend_weight > 0) {
		parts += pow(ahead * off, 2) / w->bend_weight;
		parts = fmax(parts, parts_of_growing(w, ahead, off));
	}
	*half_width = w->t_95 * sqrt(w->variance * parts);
	return w->bytes + ahead * (w->pace + w->bend * off);
}

double pace_walk_latest(const struct growth_walk *w)
{
	double off = w->step - w->centre, parts = 1 / w->weight;

	if (w->bend_weight > 0)
		parts += off * off / w->bend_weight;
	return w->pace + w->bend * off + w->t_95 * sqrt(w->variance * parts);
}

size_t pace_parts(const struct growth_reading *r, size_t nr, double value[static PACE_PARTS])
{
	size_t parts = nr > PACE_PARTS + 1 ? PACE_PARTS + 1 : nr, n = 0;
	double last_step = 0, last_bytes = 0;

	for (size_t i = 0; i < parts; i++) {
		size_t first = i * nr / parts, end = (i + 1) * nr / parts;
		double step = 0, bytes = 0;

		for (size_t j = first; j < end; j++) {
			step += r[j].step / (double)(end - first);
			bytes += r[j].bytes / (double)(end - first);
		}
		if (i && step > last_step)
			value[n++] = (bytes - last_bytes) / (step - last_step);
		last_step = step;
		last_bytes = bytes;
	}
	return n;
}

int pace_trend(const struct growth_reading *r, size_t nr)
{
	double part[PACE_PARTS];
	size_t n = pace_parts(r, nr, part);
	double variance = (double)(n * (n - 1) * (2 * n + 5)) / 18;
	int s = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			s += (part[j] > part[i]) - (part[j] < part[i]);
	if (nr > PACE_PARTS + 1) /* means of neighbouring parts of a random sum: their rises correlate by a quarter */
		variance *= 1.5;
	if (abs(s) < Z_95 * sqrt(variance))
		return 0;
	return s > 0 ? 1 : -1;
}
