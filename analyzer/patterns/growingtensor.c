/* SPDX-License-Identifier: MIT */
/* Tensors that grow from one to the next of a line, by one dimension. */
#include "analyzer/patterns/growingtensor.h"

#include <string.h>

#include "analyzer/patterns/kvcache.h"
#include "analyzer/patterns/patterns_thresholds.h"

/* Do they differ in one dimension alone, that is larger in b? */
static bool grew(const struct tfmt_shape *a, const struct tfmt_shape *b, uint32_t *dim)
{
	uint32_t nr = 0;

	if (a->nr_dims != b->nr_dims || a->element_type != b->element_type)
		return false;
	for (uint32_t i = 0; i < a->nr_dims; i++) {
		if (a->dims[i] == b->dims[i])
			continue;
		nr++;
		*dim = i;
	}
	return nr == 1 && b->dims[*dim] > a->dims[*dim];
}

/* Alike in all dimensions, or in all but one: a line may make keys and values, or logits and hidden states, in turn. */
static bool is_of_series(const struct tfmt_shape *a, const struct tfmt_shape *b)
{
	uint32_t nr = 0;

	if (a->nr_dims != b->nr_dims || a->element_type != b->element_type)
		return false;
	for (uint32_t i = 0; i < a->nr_dims; i++)
		nr += a->dims[i] != b->dims[i];
	return nr <= 1;
}

/*
 * What a stack made that is of the series of this tensor. What the next one is made from is still there then: inputs that
 * happen to become longer, and what is computed from them, come one after another.
 */
static struct growingtensor_series series_of(const struct moment *at, uint32_t python_stack, const struct tfmt_shape *of)
{
	const struct books *books = at->device->process->books;
	struct tfmt_shape shape, before = { 0 };
	struct growingtensor_series s = { 0 };
	bool has_before = false, is_there;
	uint64_t dims[16];
	uint32_t dim = 0, nr_since = 0; /* groups of the stack since `before` */

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (!g->tensor || g->python_stack != python_stack)
			continue;
		is_there = has_before && group_met(g, nr_since++);
		if (g->device != at->device->ordinal || !g->shape ||
		    !tfmt_reader_shape(books_reader(books), g->shape, &shape) || !shape.nr_dims || shape.nr_dims > 16 ||
		    !is_of_series(&shape, of))
			continue;
		if (is_there && grew(&before, &shape, &dim) && (!s.nr_grown || s.dim == dim)) {
			if (!s.nr_grown)
				s.first = before.dims[dim];
			s.nr_alike += shape.dims[dim] - before.dims[dim] == s.by;
			s.by = shape.dims[dim] - before.dims[dim];
			s.nr_grown++;
			s.dim = dim;
			s.last = shape.dims[dim];
		} else if (has_before) {
			s.nr_others++;
		}
		memcpy(dims, shape.dims, shape.nr_dims * sizeof(*dims));
		before = shape;
		before.dims = dims;
		has_before = true;
		nr_since = 0;
	}
	return s;
}

static bool is_past(const struct tfmt_shape *shape, const struct growingtensor_series *s)
{
	return shape->nr_dims > s->dim && shape->dims[s->dim] + s->by < s->last;
}

/* What grows leaves no copies of its past but the last; a list of tensors of growing sizes does. */
static bool keeps_past(const struct moment *at, uint32_t python_stack, const struct tfmt_shape *of,
		       const struct growingtensor_series *s)
{
	uint64_t past = 0, all = 0;

	for (size_t i = 0; i < at->nr_blocks; i++) {
		if (!at->block[i].is_shaped || moment_group(at, i)->python_stack != python_stack ||
		    !is_of_series(&at->block[i].shape, of))
			continue;
		all += at->live[i].life.size;
		if (is_past(&at->block[i].shape, s))
			past += at->live[i].life.size;
	}
	return SERIES_PAST_PART * past > all;
}

/* By concatenation it grows evenly; batches that happen to become longer do not. */
static bool is_growing(const struct growingtensor_series *s)
{
	return s->nr_grown >= SERIES_MIN && s->nr_others <= s->nr_grown / SERIES_OTHERS_PART &&
	       s->nr_alike >= SERIES_EVEN * (s->nr_grown - 1);
}

static uint32_t nr_like_largest(const struct growingtensors *g, const struct moment *at)
{
	const struct tfmt_shape *largest;
	uint32_t nr = 0;

	if (!g->nr_blocks)
		return 0;
	largest = &at->block[g->largest].shape;
	for (size_t i = 0; i < at->nr_blocks; i++)
		nr += at->block[i].is_shaped && moment_group(at, i)->python_stack == moment_group(at, g->largest)->python_stack &&
		      is_of_series(&at->block[i].shape, largest) && !is_past(&at->block[i].shape, &g->series);
	return nr;
}

void growingtensors_find(struct growingtensors *out, const struct moment *at)
{
	const struct tfmt_shape *known = NULL;
	uint32_t known_stack = 0;
	struct growingtensor_series s = { 0 };
	bool grows = false;

	*out = (struct growingtensors){ 0 };
	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct life *life = &at->live[i].life;
		uint32_t stack = moment_group(at, i)->python_stack;

		if (life->size < at->allocated / GROWING_SMALL_PART || at->block[i].has_graph ||
		    !at->block[i].is_shaped || life->birth.phase == PHASE_BACKWARD ||
		    life->birth.phase == PHASE_OPTIMIZER)
			continue;
		if (!known || stack != known_stack || !is_of_series(&at->block[i].shape, known)) {
			s = series_of(at, stack, &at->block[i].shape);
			grows = is_growing(&s) && !keeps_past(at, stack, &at->block[i].shape, &s);
			known = &at->block[i].shape;
			known_stack = stack;
		}
		if (!grows || is_past(&at->block[i].shape, &s))
			continue;
		if (at->block[i].shape.nr_dims >= KVCACHE_DIMS_MIN) {
			if (!out->nr_blocks++ || life->size > at->live[out->largest].life.size) {
				out->largest = i;
				out->series = s;
			}
			out->bytes += life->size;
		} else {
			if (!out->nr_rest++ ||
			    life->size > at->live[out->largest_rest].life.size) {
				out->largest_rest = i;
				out->series_rest = s;
			}
			out->rest += life->size;
		}
	}
	out->nr_like = nr_like_largest(out, at);
}
