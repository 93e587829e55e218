/* SPDX-License-Identifier: MIT */
/* Causes: memory that the program keeps from one step, call or token to the next. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis/autopsy_causes.h"
#include "analyzer/ui/human.h"

#define STEPS_MIN 4 /* that have left something: fewer are warm-up, or chance */
#define CALLS_MIN 3
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
		if (!is_growing(&s))
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

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Forward's blocks with a graph, behind the last backward pass. */
struct open_graphs {
	uint64_t bytes;
	uint32_t nr_blocks;
	uint32_t nr_calls;    /* as often as a batch was made for them */
	uint32_t nr_repeated; /* blocks of stacks that are there as often */
	uint64_t repeated_bytes;
	size_t largest;   /* block */
	bool is_consumed; /* some of their stacks have had a backward before */
};

static const struct lives_fates *fates_of(const struct autopsy *a, size_t block)
{
	const struct lives *lives = a->device->process->books.lives;
	uint32_t group = a->categories.block[block].life.group;

	return group < lives->nr_fates ? &lives->fates[group] : NULL;
}

static bool is_open(const struct autopsy *a, size_t i)
{
	const struct life *life = &a->categories.block[i].life;

	return life->birth.nr_begun == a->failure->nr_begun && a->failure->nr_begun == life->birth.nr_ended;
}

/* How many live blocks are of each group: an array by group, to be freed; NULL without memory. */
static uint32_t *count_groups(const struct autopsy *a, bool graphs)
{
	uint32_t *count = calloc(a->device->process->books.groups.nr_groups + 1, sizeof(*count));

	for (size_t i = 0; count && i < a->categories.nr_blocks; i++)
		if (is_open(a, i) && a->block[i].has_graph == graphs)
			count[a->categories.block[i].life.group]++;
	return count;
}

/* A batch is made outside of forward and is there as often as forward was called. */
static uint32_t most_inputs(const struct autopsy *a)
{
	uint32_t *count = count_groups(a, false), most = 0;

	for (size_t i = 0; count && i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (is_open(a, i) && b->category != CATEGORY_PARAMETER && !a->block[i].has_graph &&
		    b->life.birth.phase != PHASE_FORWARD && b->life.birth.phase != PHASE_BACKWARD &&
		    b->life.birth.phase != PHASE_OPTIMIZER && count[b->life.group] > most)
			most = count[b->life.group];
	}
	free(count);
	return most;
}

static void find_open(const struct autopsy *a, struct open_graphs *g)
{
	uint32_t *count = count_groups(a, true);

	*g = (struct open_graphs){ .nr_calls = most_inputs(a) };
	for (size_t i = 0; count && i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		const struct lives_fates *fates = fates_of(a, i);

		if (!is_open(a, i) || !a->block[i].has_graph)
			continue;
		if (!g->nr_blocks++ || life->size > a->categories.block[g->largest].life.size)
			g->largest = i;
		g->bytes += life->size;
		g->is_consumed |= fates && fates->nr[FATE_INTO_PASS];
		if (count[life->group] + 1 >= g->nr_calls) {
			g->nr_repeated++;
			g->repeated_bytes += life->size;
		}
	}
	free(count);
}

/* Of a stack's frames the function that is named for trying a model out; NULL: none. */
static const char *evaluating(const struct autopsy *a, uint32_t python_stack)
{
	static const char *const names[] = { "eval", "valid", "test", "predict", "infer", "generate" };
	struct stack_source source = model_stack_source(a->model, a->device->process);
	struct stack stack = { 0 };
	const char *found = NULL;

	if (!stack_expand(&stack, &source, python_stack, 0))
		for (uint32_t i = 0; i < stack.nr_frames && !found; i++)
			for (size_t k = 0; k < sizeof(names) / sizeof(*names) && !found; k++)
				if (stack.frame[i].python && !stack.frame[i].framework &&
				    stack.frame[i].function && strstr(stack.frame[i].function, names[k]))
					found = stack.frame[i].function;
	stack_release(&stack);
	return found;
}

/* Training has had backward passes, and this code never one. */
bool autopsy_is_evaluation(const struct autopsy *a, struct autopsy_finding *f)
{
	char size[HUMAN_MAX];
	const char *name = NULL;
	struct open_graphs g;

	if (!a->failure->nr_begun)
		return false;
	find_open(a, &g);
	if (!g.nr_blocks || g.is_consumed || !autopsy_matters(a, g.bytes))
		return false;
	/* A name alone is believed once training is under way: its first steps may bring further models'
	 * forward. */
	if (a->step >= STEPS_MIN)
		name = evaluating(a, autopsy_group(a, g.largest)->python_stack);
	if (!name && (g.nr_calls < CALLS_MIN || 2 * g.repeated_bytes < g.bytes))
		return false;
	f->bytes = g.bytes;
	autopsy_at_place(a, f, a->block[g.largest].place);
	autopsy_say(f, "%s are graphs of calls of the model that no backward pass follows.",
		    human_bytes(size, g.bytes));
	autopsy_evidence(f, "%" PRIu32 " backward passes went before, none for what this line makes%s%s",
			 a->failure->nr_begun, name ? "; it runs in " : "", name ? name : "");
	if (g.nr_calls >= CALLS_MIN)
		autopsy_evidence(f, "about %" PRIu32 " calls are kept", g.nr_calls);
	autopsy_advise(f, "with torch.no_grad() around it %s are not kept", human_bytes(size, g.bytes));
	return true;
}

bool autopsy_is_graph_retention(const struct autopsy *a, struct autopsy_finding *f)
{
	char size[HUMAN_MAX], each[HUMAN_MAX];
	struct open_graphs g;

	find_open(a, &g);
	if (g.nr_calls < CALLS_MIN || !autopsy_matters(a, g.repeated_bytes) ||
	    2 * g.repeated_bytes < a->failure->allocated)
		return false;
	f->bytes = g.repeated_bytes;
	autopsy_at_place(a, f, a->block[g.largest].place);
	autopsy_say(f, "%s are the graphs of %" PRIu32 " calls of the model without a backward pass.",
		    human_bytes(size, f->bytes), g.nr_calls);
	autopsy_evidence(f, "each call leaves %s; %" PRIu32 " backward passes have been seen",
			 human_bytes(each, f->bytes / g.nr_calls), a->failure->nr_begun);
	autopsy_advise(f, "a backward pass for each batch, or .item() of its loss, frees %s",
		       human_bytes(size, f->bytes - f->bytes / g.nr_calls));
	return true;
}

/*
 * A call failed, and what it had saved for backward is still there at the next failure, without a backward
 * pass between them: the exception that is being handled holds the frames, and they the graph.
 */
bool autopsy_is_traceback(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failures_of_device *of = failures_of(a->failures, a->device);
	const struct failure *first = of->nr_failures > 1 ? a->failure - 1 : NULL;
	char size[HUMAN_MAX], asked[HUMAN_MAX];
	uint64_t bytes = 0;
	size_t largest = 0;

	if (!first || first->handled || first->nr_begun != a->failure->nr_begun)
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (!is_open(a, i) || !a->block[i].has_graph || life->birth.ordinal > first->ordinal)
			continue;
		if (!bytes || life->size > a->categories.block[largest].life.size)
			largest = i;
		bytes += life->size;
	}
	if (!autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	autopsy_at_place(a, f, a->block[largest].place);
	autopsy_say(f, "%s are what an earlier attempt, that had failed too, had saved for backward.",
		    human_bytes(size, bytes));
	autopsy_evidence(f, "it had asked for %s; no backward pass began between the two failures",
			 human_bytes(asked, first->asked));
	autopsy_evidence(f, "an exception holds the frames it passed through for as long as it is handled");
	autopsy_advise(f, "trying again behind the except block, not in it, has %s more",
		       human_bytes(size, bytes));
	return true;
}

/* ---- kept from step to step ------------------------------------------------------------------ */

/* What steps have left of one place. */
struct kept {
	uint32_t first, last, nr_steps, nr_stacks, stack;
	uint32_t nr_freed; /* of blocks alike: freed in a later step */
	uint64_t bytes, blocks, graph_bytes;
	uint64_t graph_blocks;
};

static struct kept *find_kept(const struct autopsy *a)
{
	struct kept *kept = calloc(a->nr_places + 1, sizeof(*kept));

	for (size_t i = 0; kept && i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		struct kept *k = &kept[a->block[i].place];
		const struct lives_fates *fates = fates_of(a, i);

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
		if (fates && fates->nr[FATE_KEPT] > k->nr_freed)
			k->nr_freed = fates->nr[FATE_KEPT];
	}
	return kept;
}

static bool is_kept_on(const struct autopsy *a, const struct kept *k)
{
	return k->nr_steps >= STEPS_MIN && k->last + 3 >= a->step && 2 * k->nr_steps >= k->last - k->first &&
	       k->nr_freed < k->nr_steps;
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

bool autopsy_is_kept_graphs(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept *kept = find_kept(a);
	uint64_t bytes = 0, graph = 0, per_step = 0;
	int64_t best = kept ? most_kept(a, kept) : -1;
	bool applies = best >= 0;
	char size[HUMAN_MAX], each[HUMAN_MAX];

	for (size_t i = 0; applies && i < a->nr_places; i++) {
		if (!is_kept_on(a, &kept[i]))
			continue;
		bytes += kept[i].bytes;
		graph += kept[i].graph_bytes;
		per_step += kept[i].graph_blocks / kept[i].nr_steps;
	}
	/* One or two outputs may be kept without their graph; its saved tensors make more. */
	if (applies && (per_step < 3 || 2 * graph < bytes || !autopsy_matters(a, bytes)))
		applies = false;
	if (applies) {
		f->bytes = bytes;
		autopsy_at_place(a, f, (size_t)best);
		autopsy_say(f, "%s are graphs of %" PRIu32 " earlier steps that something still holds.",
			    human_bytes(size, bytes), kept[best].nr_steps);
		autopsy_evidence(f, "each step leaves about %" PRIu64 " tensors saved for backward, %s",
				 per_step, human_bytes(each, bytes / kept[best].nr_steps));
		autopsy_advise(f, "outputs kept with .detach(), and no retain_graph=True, free %s",
			       human_bytes(size, bytes));
	}
	free(kept);
	return applies;
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
