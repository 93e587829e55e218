/* SPDX-License-Identifier: MIT */
/* Fitting the peaks of steps to the shapes of their batches. */
#include "analyzer/training/shapefit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/training/training_thresholds.h"

/* One step: its batch's size and extent, and its peak. */
struct point {
	double size, product, peak;
};

static double size_of(const uint64_t *dims, uint32_t nr_dims, unsigned varying)
{
	double size = 1;

	for (uint32_t i = 0; i < nr_dims; i++)
		if (varying & 1u << i)
			size *= (double)dims[i];
	return size;
}

static double product_of(const uint64_t *dims, uint32_t nr_dims, unsigned varying)
{
	double size = size_of(dims, nr_dims, varying);

	return size * (varying & ~1u ? size_of(dims, nr_dims, varying & ~1u) : size);
}

/* ---- least squares --------------------------------------------------------------------------- */

/* Solve the normal equations of 2 or 3 unknowns in place; false: they have no single solution. */
static bool solve(double m[3][4], int n)
{
	for (int i = 0; i < n; i++) {
		int best = i;

		for (int k = i + 1; k < n; k++)
			if (fabs(m[k][i]) > fabs(m[best][i]))
				best = k;
		if (fabs(m[best][i]) < 1e-9)
			return false;
		for (int c = 0; c <= n; c++) {
			double t = m[i][c];

			m[i][c] = m[best][c];
			m[best][c] = t;
		}
		for (int k = 0; k < n; k++) {
			double by = k == i ? 0 : m[k][i] / m[i][i];

			for (int c = i; c <= n; c++)
				m[k][c] -= by * m[i][c];
		}
	}
	for (int i = 0; i < n; i++)
		m[i][n] /= m[i][i];
	return true;
}

/* value[]: constant, linear, quadratic, the last 0 with n = 2. The squared errors' sum; negative: no fit. */
static double fit(const struct point *p, size_t nr, int n, double value[3])
{
	double m[3][4] = { { 0 } }, scale[3] = { 1, 0, 0 }, errors = 0;

	for (size_t i = 0; i < nr; i++) {
		scale[1] = fmax(scale[1], p[i].size);
		scale[2] = fmax(scale[2], p[i].product);
	}
	for (size_t i = 0; i < nr; i++) {
		double x[3] = { 1, p[i].size / scale[1], p[i].product / scale[2] };

		for (int r = 0; r < n; r++) {
			for (int c = 0; c < n; c++)
				m[r][c] += x[r] * x[c];
			m[r][n] += x[r] * p[i].peak;
		}
	}
	if (!solve(m, n))
		return -1;
	for (int i = 0; i < 3; i++)
		value[i] = i < n ? m[i][n] / scale[i] : 0;
	for (size_t i = 0; i < nr; i++) {
		double e = p[i].peak - value[0] - value[1] * p[i].size - value[2] * p[i].product;

		errors += e * e;
	}
	return errors;
}

static double spread_of(const struct point *p, size_t nr)
{
	double mean = 0, spread = 0;

	for (size_t i = 0; i < nr; i++)
		mean += p[i].peak / (double)nr;
	for (size_t i = 0; i < nr; i++)
		spread += (p[i].peak - mean) * (p[i].peak - mean);
	return spread;
}

static int by_size(const void *va, const void *vb)
{
	const struct point *a = va, *b = vb;

	return (a->size > b->size) - (a->size < b->size);
}

static bool fit_points(struct shapefit *f, struct point *p, size_t nr)
{
	double line[3], curve[3], line_errors, curve_errors, spread = spread_of(p, nr);

	qsort(p, nr, sizeof(*p), by_size);
	f->nr_steps = (uint32_t)nr;
	f->nr_sizes = nr != 0;
	for (size_t i = 1; i < nr; i++)
		f->nr_sizes += p[i].size > p[i - 1].size;
	if (nr < FIT_STEPS_MIN || f->nr_sizes < FIT_SIZES_MIN || spread <= 0)
		return false;
	line_errors = fit(p, nr, 2, line);
	curve_errors = f->nr_sizes > FIT_SIZES_MIN ? fit(p, nr, 3, curve) : -1;
	if (line_errors < 0)
		return false;
	f->is_quadratic = curve_errors >= 0 && curve_errors < FIT_CURVE_LEAVES * line_errors && curve[2] > 0 &&
			  line_errors > FIT_LINE_EXACT * spread;
	f->constant = f->is_quadratic ? curve[0] : line[0];
	f->linear = f->is_quadratic ? curve[1] : line[1];
	f->quadratic = f->is_quadratic ? curve[2] : 0;
	f->r_squared = 1 - (f->is_quadratic ? curve_errors : line_errors) / spread;
	return f->r_squared >= FIT_R_SQUARED_MIN && (f->linear > 0 || f->is_quadratic);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The last event of a cycle. */
static uint64_t end_of(const struct steps *steps, uint32_t cycle)
{
	return cycle < steps->cycles.nr_bounds ? steps->cycles.ordinal[cycle] - 1 : UINT64_MAX;
}

/* Bits of the dimensions in which a place's tensors have differed; 0 also where their number has. */
static unsigned varying_of(const struct stepinputs_place *p)
{
	unsigned varying = 0;

	for (uint32_t i = 1; i < p->nr_changes; i++) {
		const struct stepinputs_change *a = &p->change[i - 1], *b = &p->change[i];

		if (a->nr_dims != b->nr_dims)
			return 0;
		for (uint32_t k = 0; k < b->nr_dims && k < STEPINPUTS_DIMS; k++)
			varying |= (unsigned)(a->dims[k] != b->dims[k]) << k;
	}
	return varying;
}

/* One of several that a place has made for one step, to be put together: the step follows all of them, not this one. */
static bool is_sample(const struct stepinputs_place *p, const struct stepinputs_change *now)
{
	uint32_t nr = 0;

	for (const struct stepinputs_change *c = now; c >= p->change && c->cycle == now->cycle; c--)
		nr += c->nr;
	return nr >= FIT_SAMPLES_MIN;
}

static bool fit_place(struct shapefit *f, const struct stepinputs_device *d, const struct stepinputs_place *place,
		      const struct steps *steps, uint32_t cycle, uint64_t ordinal)
{
	const struct stepinputs_change *now = stepinputs_at(place, ordinal);
	uint32_t last = d->first_cycle + d->nr_cycles, first = d->first_cycle ? d->first_cycle : 1;
	struct point *point;
	size_t nr = 0;
	bool fits;

	*f = (struct shapefit){ .python_stack = place->python_stack, .varying = (uint8_t)varying_of(place) };
	if (!now || !f->varying || is_sample(place, now))
		return false;
	f->nr_dims = now->nr_dims;
	f->bytes = now->bytes;
	memcpy(f->dims, now->dims, sizeof(f->dims));
	last = last < cycle ? last : cycle;
	point = heap_alloc(STEPINPUTS_CYCLES, sizeof(*point));
	for (uint32_t c = first; c < last; c++) {
		const struct stepinputs_change *had = stepinputs_at(place, end_of(steps, c));
		uint64_t peak = d->peak_bytes[c - d->first_cycle];

		if (!had || !peak)
			continue;
		point[nr].size = size_of(had->dims, had->nr_dims, f->varying);
		point[nr].product = product_of(had->dims, had->nr_dims, f->varying);
		point[nr++].peak = (double)peak;
		if (peak > f->largest_peak)
			f->largest_peak = peak;
	}
	fits = fit_points(f, point, nr);
	free(point);
	return fits;
}

bool shapefit_find(struct shapefit *f, const struct stepinputs_device *d, const struct steps *steps, uint32_t cycle,
		   uint64_t ordinal)
{
	struct shapefit one;
	bool found = false;

	for (uint32_t i = 0; i < d->nr_places; i++) {
		if (!fit_place(&one, d, &d->place[i], steps, cycle, ordinal))
			continue;
		/* A batch's mask or its targets explain as much as the batch: the largest of them stands for all. */
		if (!found || one.r_squared > f->r_squared + FIT_ALIKE ||
		    (one.r_squared > f->r_squared - FIT_ALIKE && one.bytes > f->bytes))
			*f = one;
		found = true;
	}
	return found;
}

/* ---- what would fit -------------------------------------------------------------------------- */

double shapefit_at(const struct shapefit *f, const uint64_t *dims)
{
	return f->constant + f->linear * size_of(dims, f->nr_dims, f->varying) +
	       f->quadratic * product_of(dims, f->nr_dims, f->varying);
}

uint64_t shapefit_largest(const struct shapefit *f, uint32_t dim, uint64_t bytes)
{
	uint64_t dims[STEPINPUTS_DIMS], low = 0, high;
	double needed;

	memcpy(dims, f->dims, sizeof(dims));
	if (dim >= f->nr_dims)
		return 0;
	high = dims[dim];
	if (!(f->varying & 1u << dim)) {
		if (dim)
			return 0;
		needed = shapefit_at(f, f->dims) - f->constant;
		if (needed <= 0 || (double)bytes <= f->constant)
			return 0;
		return (uint64_t)((double)high * fmin(1, ((double)bytes - f->constant) / needed));
	}
	while (low < high) {
		dims[dim] = low + (high - low + 1) / 2;
		if (shapefit_at(f, dims) <= (double)bytes)
			low = dims[dim];
		else
			high = dims[dim] - 1;
	}
	return low;
}
