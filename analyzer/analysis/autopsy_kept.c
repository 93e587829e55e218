/* SPDX-License-Identifier: MIT */
/* Causes: memory that the program keeps from one step, call or token to the next. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis/autopsy_causes.h"
#include "analyzer/ui/human.h"

#define STEPS_MIN 4 /* that have left something: fewer are warm-up, or chance */
#define SERIES_MIN 5 /* sizes that grow one after the other */

/* ---- tensors that grow ----------------------------------------------------------------------- */

/* The shapes of one stack's tensors in the order in which they first appeared. */
struct series {
	uint32_t nr_grown;  /* how often the next was larger in one dimension and alike in the others */
	uint32_t nr_others; /* how often it was not */
	uint32_t nr_alike;  /* grown by as much as the time before */
	uint64_t by;        /* ... so much */
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

static struct series series_of(const struct autopsy *a, uint32_t python_stack)
{
	const struct books *books = &a->device->process->books;
	struct tfmt_shape shape, before = { 0 };
	struct series s = { 0 };
	bool has_before = false;
	uint64_t dims[16];
	uint32_t dim = 0;

	for (uint32_t i = 0; i < books->groups.nr_groups; i++) {
		const struct group *g = &books->groups.group[i];

		if (!g->tensor || g->python_stack != python_stack || g->device != a->device->ordinal ||
		    !g->shape || !tfmt_reader_shape(books->reader, g->shape, &shape) || !shape.nr_dims ||
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

/* By concatenation it grows evenly; batches that happen to become longer do not. */
static bool is_growing(const struct series *s)
{
	return s->nr_grown >= SERIES_MIN && s->nr_others <= s->nr_grown / 8 &&
	       4 * s->nr_alike >= 3 * (s->nr_grown - 1);
}

/* All blocks of stacks whose tensors grow, made by calls without a graph. */
struct growing {
	uint64_t bytes, rest; /* in tensors of 3 dimensions or more, in others */
	uint32_t nr_blocks, nr_rest;
	size_t largest, largest_rest;      /* blocks */
	struct series series, series_rest; /* of those */
};

static void find_growing(const struct autopsy *a, struct growing *out)
{
	uint32_t known = 0;
	struct series s = { 0 };

	*out = (struct growing){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		uint32_t stack = autopsy_group(a, i)->python_stack;

		if (life->size < a->failure->allocated / 1000 || a->block[i].has_graph ||
		    !a->block[i].is_shaped || life->birth.phase == PHASE_BACKWARD ||
		    life->birth.phase == PHASE_OPTIMIZER)
			continue;
		if (stack != known)
			s = series_of(a, stack);
		known = stack;
		/* What grows leaves no copies of its past; a list of tensors of growing sizes does. */
		if (!is_growing(&s) || a->block[i].shape.dims[s.dim] + s.by < s.last)
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

static void say_series(struct autopsy_finding *f, const struct series *s)
{
	autopsy_evidence(f, "dimension %" PRIu32 " grew %" PRIu32 " times, from %" PRIu64 " to %" PRIu64,
			 s->dim, s->nr_grown, s->first, s->last);
}

bool autopsy_is_kv_cache(const struct autopsy *a, struct autopsy_finding *f)
{
	char size[HUMAN_MAX], each[HUMAN_MAX];
	struct growing g;
	uint64_t per_row;

	find_growing(a, &g);
	/* Keys and values of at least one layer. */
	if (g.nr_blocks < 2 || g.bytes < a->failure->allocated / 5)
		return false;
	f->bytes = g.bytes;
	autopsy_at_place(a, f, a->block[g.largest].place);
	per_row = g.bytes / (g.series.last ? g.series.last : 1);
	autopsy_say(
		f, "%s are a cache of %" PRIu32 " tensors that grow with the sequence, now %" PRIu64 " long.",
		human_bytes(size, g.bytes), g.nr_blocks, g.series.last);
	say_series(f, &g.series);
	autopsy_evidence(f, "each position takes %s; while it is copied, one tensor is there twice",
			 human_bytes(each, per_row));
	if (per_row && a->lacking)
		autopsy_advise(f, "a cache shorter by %" PRIu64 " leaves room for the %s that were lacking",
			       (a->lacking + per_row - 1) / per_row, human_bytes(size, a->lacking));
	return true;
}

bool autopsy_is_growing_tensor(const struct autopsy *a, struct autopsy_finding *f)
{
	char size[HUMAN_MAX], asked[HUMAN_MAX];
	const struct series *s;
	struct growing g;
	uint64_t bytes;
	size_t block;

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
	if (!s->nr_grown || !autopsy_matters(a, bytes + a->failure->asked))
		return false;
	f->bytes = bytes;
	autopsy_at_place(a, f, a->block[block].place);
	autopsy_say(f, "A tensor that grows by concatenation holds %s, and needs %s more for its next copy.",
		    human_bytes(size, bytes), human_bytes(asked, a->failure->asked));
	say_series(f, s);
	autopsy_advise(f, "kept on the host it frees %s here", human_bytes(size, bytes));
	return true;
}

/* ---- kept from step to step ------------------------------------------------------------------ */

/* What steps have left of one place. */
struct kept {
	uint32_t first, last, nr_steps, nr_stacks, stack;
	uint64_t bytes, blocks, graph_bytes;
	uint64_t graph_blocks;
	double freed; /* how often blocks alike were freed in a later step, times their bytes */
};

static struct kept *find_kept(const struct autopsy *a)
{
	struct kept *kept = calloc(a->nr_places + 1, sizeof(*kept));

	for (size_t i = 0; kept && i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		struct kept *k = &kept[a->block[i].place];
		const struct lives_fates *fates = autopsy_fates(a, i);

		/* What the first step leaves is what training needs. */
		if (b->step < 2 || b->step >= a->step || b->category == CATEGORY_OPTIMIZER_STATE)
			continue;
		if (!k->nr_steps)
			k->first = b->step;
		k->nr_steps += b->step != k->last;
		k->last = b->step;
		k->bytes += b->life.size;
		k->blocks++;
		if (a->block[i].has_graph) {
			k->graph_bytes += b->life.size;
			k->graph_blocks++;
		}
		if (fates)
			k->freed += (double)fates->nr[FATE_KEPT] * (double)b->life.size;
	}
	return kept;
}

/* A ring lets go of as many as it holds; the scalar that a variable holds until the next step says nothing of the rest. */
static bool is_kept_on(const struct autopsy *a, const struct kept *k)
{
	return k->nr_steps >= STEPS_MIN && k->last + 3 >= a->step && 2 * k->nr_steps >= k->last - k->first &&
	       k->freed < (double)k->nr_steps * (double)k->bytes;
}

static uint64_t bytes_per_step(const struct kept *k)
{
	return k->nr_steps ? k->bytes / k->nr_steps : 0;
}

static void say_kept(struct autopsy_finding *f, const struct kept *k)
{
	char each[HUMAN_MAX];

	autopsy_evidence(f,
			 "%" PRIu64 " blocks are left of steps %" PRIu32 " to %" PRIu32
			 ", of nearly every one: %s per step",
			 k->blocks, k->first, k->last, human_bytes(each, bytes_per_step(k)));
}

/* The place that keeps most; its index, or -1. */
static int64_t most_kept(const struct autopsy *a, const struct kept *kept)
{
	int64_t best = -1;

	for (size_t i = 0; i < a->nr_places; i++)
		if (is_kept_on(a, &kept[i]) && (best < 0 || kept[i].bytes > kept[best].bytes))
			best = (int64_t)i;
	return best;
}

/* Graphs of earlier steps, of all places. */
struct kept_graphs {
	uint64_t bytes, per_step; /* per_step: tensors */
	uint32_t nr_steps;
	size_t place; /* that keeps most */
};

static bool find_kept_graphs(const struct autopsy *a, struct kept_graphs *g)
{
	struct kept *kept = find_kept(a);
	int64_t best = kept ? most_kept(a, kept) : -1;
	uint64_t graph = 0;

	*g = (struct kept_graphs){ 0 };
	for (size_t i = 0; best >= 0 && i < a->nr_places; i++) {
		if (!is_kept_on(a, &kept[i]))
			continue;
		g->bytes += kept[i].bytes;
		graph += kept[i].graph_bytes;
		g->per_step += kept[i].graph_blocks / kept[i].nr_steps;
	}
	if (best >= 0) {
		g->place = (size_t)best;
		g->nr_steps = kept[best].nr_steps;
	}
	free(kept);
	/* One or two outputs may be kept without their graph; its saved tensors make more. */
	return best >= 0 && g->per_step >= 3 && 2 * graph >= g->bytes && autopsy_matters(a, g->bytes);
}

/* What backward passes have freed of all that forward made for them. */
static double freed_by_passes(const struct autopsy *a)
{
	const struct books *books = &a->device->process->books;
	double bytes = 0;

	for (uint32_t i = 0; i < books->groups.nr_groups && i < books->lives->nr_fates; i++) {
		const struct group *g = &books->groups.group[i];

		if (g->tensor && g->device == a->device->ordinal && g->phase == PHASE_FORWARD)
			bytes += (double)books->lives->fates[i].nr[FATE_INTO_PASS] * (double)g->shape_bytes;
	}
	return bytes;
}

static void say_kept_graphs(const struct autopsy *a, struct autopsy_finding *f, const struct kept_graphs *g,
			    const char *how)
{
	char size[HUMAN_MAX], each[HUMAN_MAX];

	f->bytes = g->bytes;
	autopsy_at_place(a, f, g->place);
	autopsy_say(f, "%s are graphs of %" PRIu32 " earlier steps that %s.", human_bytes(size, g->bytes), g->nr_steps, how);
	autopsy_evidence(f, "each step leaves about %" PRIu64 " tensors saved for backward, %s", g->per_step,
			 human_bytes(each, g->bytes / g->nr_steps));
}

/* Passes went through the steps, and hardly anything was freed by them. */
bool autopsy_is_retained_graph(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept_graphs g;
	char size[HUMAN_MAX];

	if (!find_kept_graphs(a, &g) || 2 * freed_by_passes(a) >= (double)g.bytes)
		return false;
	say_kept_graphs(a, f, &g, "backward passes went through and did not free");
	autopsy_evidence(f, "so does retain_graph=True, as long as something holds an output: a sum of losses, a state");
	autopsy_advise(f, "without retain_graph=True, and with what is carried on detached, %s are free",
		       human_bytes(size, g.bytes));
	return true;
}

bool autopsy_is_kept_graphs(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept_graphs g;
	char size[HUMAN_MAX];

	if (!find_kept_graphs(a, &g))
		return false;
	say_kept_graphs(a, f, &g, "something still holds");
	autopsy_advise(f, "outputs kept with .detach() free %s", human_bytes(size, g.bytes));
	return true;
}

bool autopsy_is_leak(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept *kept = find_kept(a);
	int64_t best = kept ? most_kept(a, kept) : -1;
	char size[HUMAN_MAX], each[HUMAN_MAX];
	bool applies = best >= 0 && autopsy_matters(a, kept[best].bytes);

	if (applies) {
		const struct kept *k = &kept[best];

		f->bytes = k->bytes;
		autopsy_at_place(a, f, (size_t)best);
		autopsy_say(f, "%s are kept of %" PRIu32 " earlier steps, %s more with each.",
			    human_bytes(size, k->bytes), k->nr_steps, human_bytes(each, bytes_per_step(k)));
		say_kept(f, k);
		autopsy_advise(f, "not kept, or kept on the host, it frees %s", human_bytes(size, k->bytes));
	}
	free(kept);
	return applies;
}
