/* SPDX-License-Identifier: MIT */
/* Causes: tensors that grow with each token, call or step. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/patterns/generations.h"
#include "analyzer/patterns/kvcache.h"

/* Is the request for the next of a series, next to the latest, a block? By another line it may be, as cat() is called. */
static bool is_next(const struct autopsy *a, size_t block, const struct growingtensor_series *s)
{
	uint64_t size = a->categories.block[block].life.size, step = size / s->last * s->by;

	return a->failure->asked + TORCH_SEGMENT_ROUND >= size &&
	       a->failure->asked <= size + NEXT_STEPS * step + TORCH_SEGMENT_ROUND;
}

static void say_series(struct autopsy_finding *f, const struct growingtensor_series *s)
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
	const struct growingtensors *g = &a->patterns.growing;
	uint64_t per_row, twice, longest;
	uint32_t nr_twice;

	/* Keys and values of at least one layer: two that are alike. */
	if (!kvcache_is(g->nr_like, KVCACHE_DIMS_MIN) || g->bytes < a->failure->allocated / CACHE_PART)
		return false;
	f->bytes = g->bytes;
	autopsy_at_place(a, f, a->block[g->largest].place);
	nr_twice = generations_find(&a->moment, &g->series, &twice);
	if (nr_twice < TWICE_MIN)
		twice = 0;
	per_row = (g->bytes - twice) / (g->series.last ? g->series.last : 1);
	autopsy_say(f, SAID(cache_grows, fact_bytes("bytes", g->bytes), fact_count("tensors", g->nr_blocks),
			    fact_count("length", g->series.last)));
	say_series(f, &g->series);
	if (twice)
		autopsy_evidence(f, SAID(cache_is_twice, fact_bytes("each", per_row), fact_count("tensors", nr_twice),
					 fact_bytes("twice", twice)));
	else
		autopsy_evidence(f, SAID(cache_is_copied, fact_bytes("each", per_row)));
	if (twice)
		autopsy_advise(f, SAID(cache_let_go_advice, fact_bytes("twice", twice)));
	longest = longest_in_place(a, g->bytes, per_row);
	if (longest > g->series.last + g->series.last / LONGER_PART)
		autopsy_advise(f, SAID(cache_in_place_advice, fact_count("length", longest)));
	else if (per_row && a->lacking)
		autopsy_advise(f, SAID(cache_shorter_advice, fact_count("length", g->series.last + g->series.by),
				       fact_bytes("each", per_row)));
	return true;
}

/* Does the operation that asked compute something, and put nothing together? "" where it is not known. */
static bool is_computed(const struct autopsy *a)
{
	return *a->operation && strcmp(a->operation, "pad") != 0 && !autopsy_is_joining(a->operation) &&
	       !autopsy_is_creation(a->operation);
}

bool autopsy_is_growing_tensor(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct growingtensor_series *s;
	const struct growingtensors *g = &a->patterns.growing;
	uint64_t bytes;
	size_t block;
	bool is_copy;

	if (g->nr_like == 1 && a->categories.block[g->largest].life.size > g->rest) {
		bytes = a->categories.block[g->largest].life.size;
		block = g->largest;
		s = &g->series;
	} else {
		bytes = g->rest;
		block = g->largest_rest;
		s = &g->series_rest;
	}
	if (!s->nr_grown)
		return false;
	/* What the same stack computes is an output, of inputs that happen to become longer, that a variable has until the next is there. */
	if (is_computed(a) && autopsy_group(a, block)->python_stack == a->failure->python_stack)
		return false;
	is_copy = is_next(a, block, s) && !is_computed(a);
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
	if (is_copy && !f->has_caller) /* a package's line is not the program's to write */
		autopsy_advise(f, SAID(growing_in_place_advice, fact_bytes("asked", a->failure->asked)));
	autopsy_advise(f, SAID(growing_advice, fact_bytes("bytes", bytes)));
	return true;
}
