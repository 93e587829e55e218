/* SPDX-License-Identifier: MIT */
/* Does a series of readings grow; see growth.h. */
#include "analyzer/growth/growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/growth_thresholds.h"
#include "analyzer/growth/pace.h"

const char *const growth_shape_names[] = { "unknown", "none", "steady", "accelerating", "decelerating" };

/* Normal quantile of a 95% interval. */
#define Z_95 1.959964

/* 97.5% quantile of Student's distribution. */
static double student_95(size_t freedom)
{
	static const double table[] = {
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042
	};
	const size_t nr = sizeof(table) / sizeof(table[0]);

	return freedom - 1 < nr ? table[freedom - 1] : Z_95 + 2.45 / (double)freedom;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *sorted, size_t nr)
{
	return nr % 2 ? sorted[nr / 2] : (sorted[nr / 2 - 1] + sorted[nr / 2]) / 2;
}

/* ---- slope ----------------------------------------------------------------------------------- */

/* Variance of Kendall's S: of n readings without a trend, those with equal bytes taken together. */
static double kendall_variance(const struct growth_reading *r, size_t nr, double *bytes)
{
	double n = (double)nr, variance = n * (n - 1) * (2 * n + 5);

	for (size_t i = 0; i < nr; i++)
		bytes[i] = r[i].bytes;
	qsort(bytes, nr, sizeof(*bytes), compare_doubles);
	for (size_t i = 0, j; i < nr; i = j) {
		double ties;

		for (j = i; j < nr && bytes[j] == bytes[i]; j++)
			;
		ties = (double)(j - i);
		variance -= ties * (ties - 1) * (2 * ties + 5);
	}
	return variance / 18;
}

static void find_slope(struct growth *g, const struct growth_reading *r, size_t nr)
{
	double *slope = heap_alloc(nr * nr / 2 + nr, sizeof(*slope));
	double spread, low, high;
	size_t nr_slopes = 0;

	spread = Z_95 * sqrt(kendall_variance(r, nr, slope));
	for (size_t i = 0; i < nr; i++)
		for (size_t j = i + 1; j < nr; j++)
			if (r[j].step > r[i].step)
				slope[nr_slopes++] = (r[j].bytes - r[i].bytes) / (r[j].step - r[i].step);
	if (nr_slopes) {
		qsort(slope, nr_slopes, sizeof(*slope), compare_doubles);
		g->slope = median(slope, nr_slopes);
		low = floor(((double)nr_slopes - spread) / 2);
		high = ceil(((double)nr_slopes + spread) / 2);
		g->slope_low = slope[low > 0 ? (size_t)low : 0];
		g->slope_high = slope[high < (double)nr_slopes ? (size_t)high : nr_slopes - 1];
	}
	free(slope);
}

/* ---- fits ------------------------------------------------------------------------------------ */

/* Invert the symmetric positive matrix a of n rows (Gauss and Jordan). false: it is singular. */
static bool invert(double a[3][3], double inverse[3][3], int n)
{
	double m[3][6] = { { 0 } };

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++)
			m[i][j] = a[i][j];
		m[i][n + i] = 1;
	}
	for (int c = 0; c < n; c++) {
		int pivot = c;

		for (int i = c + 1; i < n; i++)
			if (fabs(m[i][c]) > fabs(m[pivot][c]))
				pivot = i;
		if (fabs(m[pivot][c]) < 1e-12 * fabs(a[0][0]))
			return false;
		for (int j = 0; j < 2 * n; j++) {
			double swap = m[c][j];

			m[c][j] = m[pivot][j];
			m[pivot][j] = swap;
		}
		for (int i = 0; i < n; i++) {
			double by = m[i][c] / m[c][c];

			for (int j = 0; j < 2 * n && i != c; j++)
				m[i][j] -= by * m[c][j];
		}
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			inverse[i][j] = m[i][n + j] / m[i][i];
	return true;
}

static void powers(const struct growth_fit *f, double step, double v[3])
{
	double u = (step - f->centre) / f->scale;

	v[0] = 1;
	v[1] = u;
	v[2] = u * u;
}

static double value_at(const struct growth_fit *f, double step)
{
	double v[3];

	powers(f, step, v);
	return v[0] * f->value[0] + v[1] * f->value[1] + v[2] * f->value[2];
}

/* What the fit says of a step, and half the width of the 95% prediction interval there, of independent errors. */
static double fit_at(const struct growth_fit *f, double step, double *half_width)
{
	double v[3], variance = f->error_bytes * f->error_bytes;

	powers(f, step, v);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			variance += v[i] * f->covariance[i][j] * v[j];
	*half_width = f->t_95 * sqrt(variance);
	return value_at(f, step);
}

/* Least squares over the readings that are not left out. */
static void fit(struct growth_fit *f, const struct growth_reading *r, size_t nr, const bool *left_out,
		int degree)
{
	double a[3][3] = { { 0 } }, b[3] = { 0 }, inverse[3][3], v[3], squares = 0, largest = 1, n = 0,
	       floor_;
	int terms = degree + 1;

	*f = (struct growth_fit){ .centre = (r[0].step + r[nr - 1].step) / 2,
				  .scale = (r[nr - 1].step - r[0].step) / 2,
				  .limit_step = NAN,
				  .limit_step_low = NAN,
				  .limit_step_high = NAN };
	if (!(f->scale > 0))
		return;
	for (size_t i = 0; i < nr; i++) {
		if (left_out && left_out[i])
			continue;
		n++;
		powers(f, r[i].step, v);
		largest = fmax(largest, fabs(r[i].bytes));
		for (int j = 0; j < terms; j++) {
			b[j] += v[j] * r[i].bytes;
			for (int k = 0; k < terms; k++)
				a[j][k] += v[j] * v[k];
		}
	}
	if (n <= terms || !invert(a, inverse, terms))
		return;
	for (int j = 0; j < terms; j++)
		for (int k = 0; k < terms; k++)
			f->value[j] += inverse[j][k] * b[k];
	for (size_t i = 0; i < nr; i++)
		if (!left_out || !left_out[i])
			squares += pow(r[i].bytes - value_at(f, r[i].step), 2);
	f->is_known = true;
	f->error_bytes = sqrt(squares / (n - terms));
	f->t_95 = student_95((size_t)n - (size_t)terms);
	for (int j = 0; j < terms; j++)
		for (int k = 0; k < terms; k++)
			f->covariance[j][k] = inverse[j][k] * f->error_bytes * f->error_bytes;
	/* Readings that lie on the curve to the last bit would make the logarithm worthless. */
	floor_ = n * pow(ERROR_EXACT * largest, 2);
	f->aicc = n * log(fmax(squares, floor_) / n) + 2 * (terms + 1);
	f->aicc += n > terms + 2 ? 2.0 * (terms + 1) * (terms + 2) / (n - terms - 2) : INFINITY;
}

/* Mark what lies further from the parabola than readings do: a spike at one step. Returns how many. */
static size_t mark_outliers(const struct growth_fit *f, const struct growth_reading *r, size_t nr,
			    bool *left_out, double *work)
{
	size_t marked = 0;
	double sigma;

	for (size_t i = 0; i < nr; i++)
		work[i] = fabs(r[i].bytes - value_at(f, r[i].step));
	qsort(work, nr, sizeof(*work), compare_doubles);
	sigma = 1.4826 * median(work, nr);
	for (size_t i = 0; i < nr; i++) {
		left_out[i] = sigma > 0 && fabs(r[i].bytes - value_at(f, r[i].step)) > OUTLIER_SIGMAS * sigma;
		marked += left_out[i];
	}
	return marked;
}

static void find_walk(struct growth_fit *f, const struct growth_reading *r, size_t nr, int degree)
{
	f->may_walk = pace_walk(&f->walk, r, nr, degree);
	if (f->may_walk)
		f->walk.t_95 = student_95(nr - 1 - (size_t)degree);
}

/*
 * Of the fits' errors: are they those of a sum of random parts? Then intervals are by what each step adds. Of few readings
 * nobody can tell: those of the coming end allow for both.
 */
static void find_drift(struct growth *g, const struct growth_reading *r, size_t nr, double *error)
{
	double variance, half, largest = 1;
	bool may_drift;

	for (size_t i = 0; i < nr; i++) {
		largest = fmax(largest, fabs(r[i].bytes));
		error[i] = r[i].bytes - value_at(&g->quadratic, r[i].step);
	}
	may_drift = pace_may_drift(error, nr);
	g->drifts = nr >= READINGS_MIN && g->quadratic.error_bytes > ERROR_EXACT * largest && pace_drifts(error, nr);
	if (!g->drifts && !may_drift)
		return;
	find_walk(&g->linear, r, nr, 1);
	find_walk(&g->quadratic, r, nr, 2);
	if (!g->drifts)
		return;
	pace_mean(r, 1, nr, &variance);
	half = student_95(nr - 2) * sqrt(variance);
	g->slope_low = fmin(g->slope_low, pace_least(r, nr) < 0 ? g->slope - half : fmax(0, g->slope - half));
	g->slope_high = fmax(g->slope_high, g->slope + half);
}

/* Copy the readings that are not left out. Returns how many. */
static size_t keep_used(struct growth_reading *used, const struct growth_reading *r, size_t nr, const bool *left_out)
{
	size_t n = 0;

	for (size_t i = 0; i < nr; i++)
		if (!left_out[i])
			used[n++] = r[i];
	return n;
}

static void fit_both(struct growth *g, const struct growth_reading *r, size_t nr)
{
	bool *left_out = heap_alloc(nr, sizeof(*left_out));
	double *work = heap_alloc(nr, sizeof(*work));
	struct growth_reading *used = heap_alloc(nr, sizeof(*used));

	/* Again while it finds other ones: a large spike hides a smaller one. */
	for (int round = 0; nr >= READINGS_TO_BREAK && round < 4; round++) {
		size_t marked;

		fit(&g->quadratic, r, nr, left_out, 2);
		if (!g->quadratic.is_known)
			break;
		marked = mark_outliers(&g->quadratic, r, nr, left_out, work);
		if (OUTLIERS_PART * marked > nr) {
			/* So many are no spikes: the readings scatter. */
			memset(left_out, 0, nr * sizeof(*left_out));
			marked = 0;
		}
		if (marked == g->nr_outliers)
			break;
		g->nr_outliers = marked;
	}
	fit(&g->linear, r, nr, left_out, 1);
	fit(&g->quadratic, r, nr, left_out, 2);
	nr = keep_used(used, r, nr, left_out);
	if (g->quadratic.is_known)
		find_drift(g, used, nr, work);
	free(used);
	free(work);
	free(left_out);
}

/* ---- warm-up --------------------------------------------------------------------------------- */

/* Sums over the first readings, from which the error of a line through any run of them follows. */
struct sums {
	double n, x, y, xx, xy, yy;
};

/* Of the readings i..j-1, squared distances from their best line. */
static double line_squares(const struct sums *s, size_t i, size_t j)
{
	double n = s[j].n - s[i].n, x = s[j].x - s[i].x, y = s[j].y - s[i].y;
	double xx = s[j].xx - s[i].xx - x * x / n, xy = s[j].xy - s[i].xy - x * y / n;
	double yy = s[j].yy - s[i].yy - y * y / n;

	if (n < 3)
		return 0;
	return fmax(0, xx > 0 ? yy - xy * xy / xx : yy);
}

/* What the readings i..j-1 lie off their best line. */
static void line_errors(const struct sums *s, size_t i, size_t j, double *error)
{
	double n = s[j].n - s[i].n, x = s[j].x - s[i].x, y = s[j].y - s[i].y;
	double xx = s[j].xx - s[i].xx - x * x / n, xy = s[j].xy - s[i].xy - x * y / n;

	for (size_t k = i; k < j; k++)
		error[k] = (s[k + 1].y - s[k].y - y / n) -
			   (xx > 0 ? xy / xx * (s[k + 1].x - s[k].x - x / n) : 0);
}

/* Is a break at reading `at` no more than drift seems to make, as far as can be told? error: room for nr. */
static bool is_drift(const struct growth_reading *r, size_t nr, const struct sums *s, size_t at, double least,
		     double *error)
{
	double squares = 0;

	line_errors(s, 0, at, error);
	line_errors(s, at, nr, error);
	for (size_t i = 0; i < nr; i++)
		squares += error[i] * error[i];
	return squares > least && (nr < DRIFT_KNOWN || pace_drifts(error, nr)) && !pace_breaks(r, nr, at);
}

/* Where the series breaks: readings before that are warm-up. 0: nowhere. */
static size_t find_break(const struct growth_reading *r, size_t nr)
{
	struct sums *s = heap_alloc(nr + 1, sizeof(*s));
	double *error = heap_alloc(nr, sizeof(*error));
	size_t last_part = nr / AFTER_BREAK_PART > AFTER_BREAK_MIN ? nr / AFTER_BREAK_PART : AFTER_BREAK_MIN, at = 0;
	struct growth_fit parabola;
	double best, largest = 1, floor_, n = (double)nr, squares;

	fit(&parabola, r, nr, NULL, 2);
	for (size_t i = 0; i < nr && parabola.is_known; i++) {
		/* From the first reading, and scaled: the squares of addresses of steps would eat the digits.
		 */
		double x = (r[i].step - parabola.centre) / parabola.scale, y = r[i].bytes - r[0].bytes;

		s[i + 1] = (struct sums){ s[i].n + 1,      s[i].x + x,      s[i].y + y,
					  s[i].xx + x * x, s[i].xy + x * y, s[i].yy + y * y };
		largest = fmax(largest, fabs(r[i].bytes));
	}
	floor_ = n * pow(BREAK_EXACT * largest, 2);
	squares = pow(parabola.error_bytes, 2) * (n - 3);
	best = n * log(fmax(squares, floor_)) + 3 * log(n) - BREAK_EVIDENCE;
	for (size_t i = 1; i + last_part <= nr && parabola.is_known; i++) {
		double terms = (i < 2 ? 1 : 2) + 3;
		double bic = n * log(fmax(line_squares(s, 0, i) + line_squares(s, i, nr), floor_)) +
			     terms * log(n);

		if (bic < best) {
			best = bic;
			at = i;
		}
	}
	if (at && is_drift(r, nr, s, at, floor_, error))
		at = 0;
	if (!at && pace_onset(r, nr) + last_part <= nr)
		at = pace_onset(r, nr);
	free(error);
	free(s);
	return at;
}

/* ---- when it reaches the limit --------------------------------------------------------------- */

/* The fit, or with sign +1 and -1 the upper and the lower bound of what will be read. */
static double bound_at(const struct growth_fit *f, double step, int sign)
{
	double half_width, value = fit_at(f, step, &half_width), bound = value + sign * half_width;

	if (!f->may_walk || !sign)
		return bound;
	value = pace_walk_at(&f->walk, step, &half_width);
	return sign > 0 ? fmax(bound, value + half_width) : fmin(bound, value - half_width);
}

/* The first step from `start` on at which a bound has reached the limit. */
static double reach(const struct growth_fit *f, double start, double limit, int sign)
{
	double low = start, high = start, stride = f->scale / 64;

	if (bound_at(f, start, sign) >= limit)
		return start;
	/* A parabola may turn before it gets there, so the search goes forward in growing strides. */
	for (int i = 0; i < 2000; i++) {
		low = high;
		high = low + stride;
		stride *= 1.02;
		if (bound_at(f, high, sign) >= limit)
			break;
		if (i == 1999)
			return INFINITY;
	}
	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;

		*(bound_at(f, middle, sign) >= limit ? &high : &low) = middle;
	}
	return high;
}

static void find_limit_steps(struct growth_fit *f, double start, double limit_bytes)
{
	if (!f->is_known || isnan(limit_bytes))
		return;
	f->limit_step = reach(f, start, limit_bytes, 0);
	f->limit_step_low = reach(f, start, limit_bytes, 1);
	f->limit_step_high = reach(f, start, limit_bytes, -1);
}

/* Few readings do not show a bend, even a strong one, and of more, one that is larger than its error may be real. */
static bool may_bend(const struct growth *g)
{
	const struct growth_fit *q = &g->quadratic;

	if (g->believes_quadratic || !q->is_known || g->linear.error_bytes <= ERROR_EXACT * fabs(g->linear.value[0]))
		return false;
	if (g->nr_used < DRIFT_KNOWN)
		return true;
	return fabs(q->value[2]) > sqrt(q->covariance[2][2]) &&
	       (!q->may_walk || fabs(q->walk.bend) * sqrt(q->walk.bend_weight) > sqrt(q->walk.variance));
}

/* The first step at which the limit may be reached if it goes on at the pace that the parabola has at the last reading. */
static double reach_at_latest_pace(const struct growth_fit *q, double last_step, double limit)
{
	const struct growth_walk *w = &q->walk;
	double pace = (q->value[1] + 2 * q->value[2]) / q->scale;
	double variance = (q->covariance[1][1] + 4 * q->covariance[1][2] + 4 * q->covariance[2][2]) / pow(q->scale, 2);
	double left = limit - bound_at(q, last_step, 1);

	pace += q->t_95 * sqrt(variance);
	if (q->may_walk)
		pace = fmax(pace, pace_walk_latest(w));
	if (left <= 0)
		return last_step;
	return pace > 0 ? last_step + left / pace : INFINITY;
}

static void find_limit_range(struct growth *g, double last_step, double limit)
{
	const struct growth_fit *f = growth_believed(g), *q = &g->quadratic;

	g->may_bend = may_bend(g);
	g->limit_step_low = g->may_bend ? fmin(f->limit_step_low, q->limit_step_low) : f->limit_step_low;
	g->limit_step_high = g->may_bend ? fmax(f->limit_step_high, q->limit_step_high) : f->limit_step_high;
	/* A parabola that slows down turns back, and what is kept does not: growth may as well go on. */
	if (g->believes_quadratic && q->value[2] < 0 && !isnan(limit))
		g->limit_step_low = fmin(g->limit_step_low, reach_at_latest_pace(q, last_step, limit));
}

/* ---- all of it ------------------------------------------------------------------------------- */

const struct growth_fit *growth_believed(const struct growth *g)
{
	return g->believes_quadratic ? &g->quadratic : &g->linear;
}

/* low: the slope's, by ranks */
static enum growth_shape shape_of(const struct growth *g, double low)
{
	if (isnan(g->slope) || g->nr_used < READINGS_MIN)
		return GROWTH_UNKNOWN;
	if (!(low > 0) || g->slope_low < 0)
		return GROWTH_NONE;
	if (!g->believes_quadratic)
		return GROWTH_STEADY;
	return g->quadratic.value[2] > 0 ? GROWTH_ACCELERATING : GROWTH_DECELERATING;
}

void growth_believe_linear(struct growth *g, double last_step, double limit_bytes)
{
	g->believes_quadratic = false;
	if (g->shape > GROWTH_STEADY)
		g->shape = GROWTH_STEADY;
	find_limit_range(g, last_step, limit_bytes);
}

void growth_find(struct growth *g, const struct growth_reading *reading, size_t nr, double limit_bytes)
{
	const struct growth_fit *q = &g->quadratic;
	size_t at = 1;
	double low;

	*g = (struct growth){ .nr_used = nr, .slope = NAN, .slope_low = NAN, .slope_high = NAN,
			      .limit_step_low = NAN, .limit_step_high = NAN };
	for (int i = 0; i < BREAKS_MAX && at && g->nr_used >= READINGS_TO_BREAK; i++) {
		at = find_break(reading + g->nr_warm_up, g->nr_used);
		g->nr_warm_up += at;
		g->nr_used -= at;
	}
	if (!g->nr_used)
		return;
	reading += g->nr_warm_up;
	find_slope(g, reading, g->nr_used);
	low = g->slope_low;
	fit_both(g, reading, g->nr_used);
	g->believes_quadratic = q->is_known && q->aicc < g->linear.aicc &&
				fabs(q->value[2]) > q->t_95 * sqrt(q->covariance[2][2]) &&
				(!g->linear.may_walk ||
				 pace_trend(reading, g->nr_used) * q->value[2] > 0);
	find_limit_steps(&g->linear, reading[g->nr_used - 1].step, limit_bytes);
	find_limit_steps(&g->quadratic, reading[g->nr_used - 1].step, limit_bytes);
	find_limit_range(g, reading[g->nr_used - 1].step, limit_bytes);
	g->shape = shape_of(g, low);
}
