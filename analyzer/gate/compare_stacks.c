/* SPDX-License-Identifier: MIT */
/* Stacks of two versions of a program, pair by pair. */
#include "analyzer/gate/compare_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/gate/gate_thresholds.h"

#define FRAMES_MAX 64     /* compared of a stack, innermost first */
#define PAIRS_MAX 4000000 /* considered of one device */

/* How sure it is that two stacks are one; the numbers are only compared. */
enum likeness { LIKE_NOTHING, LIKE_RENAMED, LIKE_FUNCTION, LIKE_FUNCTIONS, LIKE_BLOCKS, LIKE_NAMES };

struct pair {
	const struct footprint_stack *before, *after;
	uint32_t i, k; /* their numbers */
	enum likeness likeness;
	double nearness; /* 0 to 1, of shape, size, file and line */
};

/* ---- two stacks ------------------------------------------------------------------------------ */

/* Frame 0 is the site. */
static const char *function_at(const struct footprint_stack *s, uint32_t i)
{
	return i ? s->caller[i - 1] : s->function;
}

static uint32_t nr_functions(const struct footprint_stack *s)
{
	return s->nr_callers + 1 < FRAMES_MAX ? s->nr_callers + 1 : FRAMES_MAX;
}

static bool same_functions(const struct footprint_stack *a, const struct footprint_stack *b)
{
	if (a->nr_callers != b->nr_callers || strcmp(a->function, b->function))
		return false;
	for (uint32_t i = 0; i < a->nr_callers; i++)
		if (strcmp(a->caller[i], b->caller[i]))
			return false;
	return true;
}

/* The share of functions that both have in the same order. */
static double shared_functions(const struct footprint_stack *a, const struct footprint_stack *b)
{
	uint32_t m = nr_functions(a), n = nr_functions(b);
	uint8_t common[FRAMES_MAX + 1] = { 0 };

	for (uint32_t i = 0; i < m; i++) {
		uint8_t diagonal = 0;

		for (uint32_t k = 0; k < n; k++) {
			uint8_t above = common[k + 1];

			if (!strcmp(function_at(a, i), function_at(b, k)))
				common[k + 1] = diagonal + 1;
			else if (common[k] > common[k + 1])
				common[k + 1] = common[k];
			diagonal = above;
		}
	}
	return (double)common[n] / (m > n ? m : n);
}

static double ratio(uint64_t a, uint64_t b)
{
	return a == b ? 1 : (double)(a < b ? a : b) / (double)(a > b ? a : b);
}

/* Of several that may be meant the nearest is: these weights only put them in order. */
static double nearness(const struct footprint_stack *a, const struct footprint_stack *b)
{
	uint32_t lines = a->line > b->line ? a->line - b->line : b->line - a->line;

	return 0.3 * !strcmp(a->shape, b->shape) + 0.2 * ratio(a->bytes, b->bytes) + 0.1 * ratio(a->blocks, b->blocks) +
	       0.2 * !strcmp(a->file, b->file) + 0.1 * !strcmp(a->through, b->through) + 0.1 / (1 + lines);
}

/* Does the program call the blocks the same? It does so wherever it makes them. */
static bool same_name(const struct footprint_stack *a, const struct footprint_stack *b)
{
	return *a->name && !strcmp(a->name, b->name) && !strcmp(a->name_in, b->name_in);
}

static enum likeness likeness(const struct footprint_stack *a, const struct footprint_stack *b)
{
	bool same_site = !strcmp(a->function, b->function);

	if (same_name(a, b))
		return LIKE_BLOCKS;
	if (strcmp(a->node, b->node) || strcmp(a->call, b->call) || a->from_forward != b->from_forward)
		return LIKE_NOTHING;
	if (same_functions(a, b))
		return strcmp(a->file, b->file) || a->line != b->line || strcmp(a->through, b->through) ? LIKE_FUNCTIONS
													 : LIKE_NAMES;
	if (!*a->file != !*b->file || shared_functions(a, b) < SHARED_FUNCTIONS_MIN)
		return LIKE_NOTHING;
	if (same_site)
		return LIKE_FUNCTION;
	return *a->shape && !strcmp(a->shape, b->shape) && a->blocks == b->blocks && !strcmp(a->through, b->through)
		       ? LIKE_RENAMED
		       : LIKE_NOTHING;
}

/* ---- all stacks ------------------------------------------------------------------------------ */

struct matching {
	struct compare_device *d;
	bool *taken_before, *taken_after;
	struct pair *pair;
	size_t nr_pairs, room;
};

static void take(struct matching *m, uint32_t i, uint32_t k)
{
	const struct footprint_stack *before = &m->d->before->stack[i], *after = &m->d->after->stack[k];

	m->taken_before[i] = m->taken_after[k] = true;
	m->d->stack[m->d->nr_stacks++] =
		(struct compare_stack){ before, after, (int64_t)(after->bytes - before->bytes) };
}

/* Both sides are in order of name. */
static void match_names(struct matching *m)
{
	const struct footprint_device *a = m->d->before, *b = m->d->after;

	for (uint32_t i = 0, k = 0; i < a->nr_stacks && k < b->nr_stacks;) {
		int order = footprint_compare_stacks(&a->stack[i], &b->stack[k]);

		if (!order)
			take(m, i, k);
		i += order <= 0;
		k += order >= 0;
	}
}

static void add_pair(struct matching *m, uint32_t i, uint32_t k)
{
	const struct footprint_stack *before = &m->d->before->stack[i], *after = &m->d->after->stack[k];
	enum likeness how = likeness(before, after);

	if (how == LIKE_NOTHING)
		return;
	m->pair = heap_grow(m->pair, &m->room, m->nr_pairs + 1, sizeof(*m->pair));
	m->pair[m->nr_pairs++] = (struct pair){ before, after, i, k, how, nearness(before, after) };
}

static int by_likeness(const void *va, const void *vb)
{
	const struct pair *a = va, *b = vb;

	if (a->likeness != b->likeness)
		return a->likeness < b->likeness ? 1 : -1;
	if (a->nearness < b->nearness || a->nearness > b->nearness)
		return a->nearness < b->nearness ? 1 : -1;
	if (a->i != b->i)
		return a->i < b->i ? -1 : 1;
	return (a->k > b->k) - (a->k < b->k);
}

/* The most likely pairs of what is left, one after the other. */
static void match_likely(struct matching *m)
{
	const struct footprint_device *a = m->d->before, *b = m->d->after;
	uint64_t tried = 0;

	for (uint32_t i = 0; i < a->nr_stacks; i++) {
		if (m->taken_before[i])
			continue;
		for (uint32_t k = 0; k < b->nr_stacks && tried < PAIRS_MAX; k++)
			if (!m->taken_after[k] && ++tried)
				add_pair(m, i, k);
	}
	if (m->nr_pairs)
		qsort(m->pair, m->nr_pairs, sizeof(*m->pair), by_likeness);
	for (size_t n = 0; n < m->nr_pairs; n++)
		if (!m->taken_before[m->pair[n].i] && !m->taken_after[m->pair[n].k])
			take(m, m->pair[n].i, m->pair[n].k);
}

static void add_unmatched(struct matching *m)
{
	const struct footprint_device *a = m->d->before, *b = m->d->after;
	struct compare_stack *out = m->d->stack;

	for (uint32_t i = 0; i < a->nr_stacks; i++)
		if (!m->taken_before[i])
			out[m->d->nr_stacks++] =
				(struct compare_stack){ &a->stack[i], NULL, -(int64_t)a->stack[i].bytes };
	for (uint32_t k = 0; k < b->nr_stacks; k++)
		if (!m->taken_after[k])
			out[m->d->nr_stacks++] = (struct compare_stack){ NULL, &b->stack[k], (int64_t)b->stack[k].bytes };
}

static int by_growth(const void *va, const void *vb)
{
	const struct compare_stack *a = va, *b = vb;

	if (a->grown_bytes != b->grown_bytes)
		return a->grown_bytes < b->grown_bytes ? 1 : -1;
	return footprint_compare_stacks(a->after ? a->after : a->before, b->after ? b->after : b->before);
}

void compare_stacks(struct compare_device *d)
{
	uint32_t nr_before = d->before->nr_stacks, nr_after = d->after->nr_stacks;
	struct matching m = { .d = d };

	d->stack = heap_alloc((size_t)nr_before + nr_after, sizeof(*d->stack));
	m.taken_before = heap_alloc(nr_before, sizeof(bool));
	m.taken_after = heap_alloc(nr_after, sizeof(bool));
	match_names(&m);
	match_likely(&m);
	add_unmatched(&m);
	if (d->nr_stacks)
		qsort(d->stack, d->nr_stacks, sizeof(*d->stack), by_growth);
	free(m.taken_before);
	free(m.taken_after);
	free(m.pair);
}

int64_t compare_drop_small(struct compare_device *d, uint64_t min_bytes)
{
	uint64_t grown = 0;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < d->nr_stacks; i++) {
		const struct compare_stack *s = &d->stack[i];
		uint64_t bytes = s->before && s->after ? UINT64_MAX : s->after ? s->after->bytes : s->before->bytes;

		if (bytes < min_bytes)
			grown += (uint64_t)s->grown_bytes;
		else
			d->stack[nr++] = *s;
	}
	d->nr_stacks = nr;
	return (int64_t)grown;
}
