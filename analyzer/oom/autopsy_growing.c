/* SPDX-License-Identifier: MIT */
/* Causes: tensors that grow with each token, call or step. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"

/* The shapes of one stack's tensors in the order in which they first appeared. */
struct shape_run {
	uint32_t nr_grown;  /* how often the next was larger in one dimension and alike in the others */
	uint32_t nr_others; /* how often it was not */
	uint32_t nr_alike;  /* grown by as much as the time before */
	uint64_t by;        /* by how much it has grown */
	uint32_t dim;       /* which grew */
	uint64_t first, last;
};

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

static struct shape_run shape_run_of(const struct autopsy *a, uint32_t python_stack)
{
	const struct books *books = a->device->process->books;
	struct tfmt_shape shape, before = { 0 };
	struct shape_run s = { 0 };
	bool has_before = false;
	uint64_t dims[16];
	uint32_t dim = 0;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (!g->tensor || g->python_stack != python_stack || g->device != a->device->ordinal ||
		    !g->shape || !tfmt_reader_shape(books_reader(books), g->shape, &shape) || !shape.nr_dims ||
		    shape.nr_dims > 16)
			continue;
		if (has_before && grew(&before, &shape, &dim) && (!s.nr_grown || s.dim == dim)) {
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
	}
	return s;
}

static bool is_past(const struct tfmt_shape *shape, const struct shape_run *s)
{
	return shape->nr_dims > s->dim && shape->dims[s->dim] + s->by < s->last;
}

/* What grows leaves no copies of its past but the last; a list of tensors of growing sizes does. */
static bool keeps_past(const struct autopsy *a, uint32_t python_stack, const struct shape_run *s)
{
	uint64_t past = 0, all = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (!a->block[i].is_shaped || autopsy_group(a, i)->python_stack != python_stack)
			continue;
		all += a->categories.block[i].life.size;
		if (is_past(&a->block[i].shape, s))
			past += a->categories.block[i].life.size;
	}
	return SERIES_PAST_PART * past > all;
}

/* By concatenation it grows evenly; batches that happen to become longer do not. */
static bool is_growing(const struct shape_run *s)
{
	return s->nr_grown >= SERIES_MIN && s->nr_others <= s->nr_grown / SERIES_OTHERS_PART &&
	       s->nr_alike >= SERIES_EVEN * (s->nr_grown - 1);
}

/* All blocks of stacks whose tensors grow, made by calls without a graph. */
struct growing {
	uint64_t bytes, rest; /* in tensors of 3 dimensions or more, in others */
	uint32_t nr_blocks, nr_rest;
	size_t largest, largest_rest;      /* blocks */
	struct shape_run series, series_rest; /* of those */
};

static void find_growing(const struct autopsy *a, struct growing *out)
{
	uint32_t known = 0;
	struct shape_run s = { 0 };
	bool grows = false;

	*out = (struct growing){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		uint32_t stack = autopsy_group(a, i)->python_stack;

		if (life->size < a->failure->allocated / GROWING_SMALL_PART || a->block[i].has_graph ||
		    !a->block[i].is_shaped || life->birth.phase == PHASE_BACKWARD ||
		    life->birth.phase == PHASE_OPTIMIZER)
			continue;
		if (stack != known) {
			s = shape_run_of(a, stack);
			grows = is_growing(&s) && !keeps_past(a, stack, &s);
		}
		known = stack;
		if (!grows || is_past(&a->block[i].shape, &s))
			continue;
		if (a->block[i].shape.nr_dims >= 3) {
			if (!out->nr_blocks++ || life->size > a->categories.block[out->largest].life.size) {
				out->largest = i;
				out->series = s;
			}
			out->bytes += life->size;
		} else {
			if (!out->nr_rest++ ||
			    life->size > a->categories.block[out->largest_rest].life.size) {
				out->largest_rest = i;
				out->series_rest = s;
			}
			out->rest += life->size;
		}
	}
}

/* Is the request for the next of a series, next to the latest, a block? By another line it may be, as cat() is called. */
static bool is_next(const struct autopsy *a, size_t block, const struct shape_run *s)
{
	uint64_t size = a->categories.block[block].life.size, step = size / s->last * s->by;

	return a->failure->asked + TORCH_SEGMENT_ROUND >= size &&
	       a->failure->asked <= size + NEXT_STEPS * step + TORCH_SEGMENT_ROUND;
}

static bool is_long(const struct autopsy *a, size_t i, const struct shape_run *s, uint64_t length)
{
	const struct tfmt_shape *shape = &a->block[i].shape;

	return a->block[i].is_shaped && shape->nr_dims > s->dim && shape->dims[s->dim] == length;
}

/* How many tensors of this block's line and module, among the first `nr` blocks, are so long? */
static uint32_t nr_long(const struct autopsy *a, size_t nr, size_t of, const struct shape_run *s, uint64_t length)
{
	const struct category_block *b = a->categories.block;
	uint32_t found = 0;

	for (size_t i = 0; i < nr; i++)
		found += b[i].module == b[of].module && autopsy_group(a, i)->python_stack == autopsy_group(a, of)->python_stack &&
			 is_long(a, i, s, length);
	return found;
}

/* Tensors of the position before that are still there beside the same layers' next ones. Returns how many. */
static uint32_t find_twice(const struct autopsy *a, const struct shape_run *s, uint64_t *bytes)
{
	uint32_t nr = 0;

	*bytes = 0;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (!a->categories.block[i].module || !is_long(a, i, s, s->last - s->by) ||
		    nr_long(a, i, i, s, s->last - s->by) >= nr_long(a, a->categories.nr_blocks, i, s, s->last))
			continue;
		nr++;
		*bytes += a->categories.block[i].life.size;
	}
	return nr;
}

static void say_series(struct autopsy_finding *f, const struct shape_run *s)
{
	autopsy_evidence(f, SAID(growing_series, fact_count("dimension", s->dim), fact_count("times", s->nr_grown),
				 fact_count("first", s->first), fact_count("last", s->last)));
}

/* How long a cache could be that is made once, and in which each position is written: with the rest as it is. */
static uint64_t longest_in_place(const struct autopsy *a, uint64_t cache_bytes, uint64_t per_row)
{
	uint64_t rest = a->failure->allocated - cache_bytes;

	return per_row && a->fitting > rest ? (a->fitting - rest) / per_row : 0;
}

bool autopsy_is_kv_cache(const struct autopsy *a, struct autopsy_finding *f)
{
	struct growing g;
	uint64_t per_row, twice, longest;
	uint32_t nr_twice;

	find_growing(a, &g);
	/* Keys and values of at least one layer. */
	if (g.nr_blocks < CACHE_TENSORS_MIN || g.bytes < a->failure->allocated / CACHE_PART)
		return false;
	f->bytes = g.bytes;
	autopsy_at_place(a, f, a->block[g.largest].place);
	nr_twice = find_twice(a, &g.series, &twice);
	if (nr_twice < TWICE_MIN)
		twice = 0;
	per_row = (g.bytes - twice) / (g.series.last ? g.series.last : 1);
	autopsy_say(f, SAID(cache_grows, fact_bytes("bytes", g.bytes), fact_count("tensors", g.nr_blocks),
			    fact_count("length", g.series.last)));
	say_series(f, &g.series);
	if (twice)
		autopsy_evidence(f, SAID(cache_is_twice, fact_bytes("each", per_row), fact_count("tensors", nr_twice),
					 fact_bytes("twice", twice)));
	else
		autopsy_evidence(f, SAID(cache_is_copied, fact_bytes("each", per_row)));
	if (twice)
		autopsy_advise(f, SAID(cache_let_go_advice, fact_bytes("twice", twice)));
	longest = longest_in_place(a, g.bytes, per_row);
	if (longest > g.series.last + g.series.last / LONGER_PART)
		autopsy_advise(f, SAID(cache_in_place_advice, fact_count("length", longest)));
	else if (per_row && a->lacking)
		autopsy_advise(f, SAID(cache_shorter_advice, fact_count("positions", (a->lacking + per_row - 1) / per_row),
				       fact_bytes("lacking", a->lacking)));
	return true;
}

bool autopsy_is_growing_tensor(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct shape_run *s;
	struct growing g;
	uint64_t bytes;
	size_t block;
	bool is_copy;

	find_growing(a, &g);
	if (g.nr_blocks == 1 && g.bytes > g.rest) {
		bytes = g.bytes;
		block = g.largest;
		s = &g.series;
	} else {
		bytes = g.rest;
		block = g.largest_rest;
		s = &g.series_rest;
	}
	if (!s->nr_grown)
		return false;
	is_copy = is_next(a, block, s);
	if (!autopsy_matters(a, bytes + (is_copy ? a->failure->asked : 0)))
		return false;
	/* It would have fitted, were what is free in one piece. */
	if (a->cached >= a->failure->asked && a->cached > bytes + a->failure->asked)
		return false;
	f->bytes = bytes;
	autopsy_at_place(a, f, a->block[block].place);
	if (is_copy)
		autopsy_say(f, SAID(growing_needs_copy, fact_bytes("bytes", bytes), fact_bytes("asked", a->failure->asked)));
	else
		autopsy_say(f, SAID(growing_holds, fact_bytes("bytes", bytes)));
	say_series(f, s);
	autopsy_advise(f, SAID(growing_advice, fact_bytes("bytes", bytes)));
	return true;
}
