/* SPDX-License-Identifier: MIT */
/* Advice about what outlives its use: gradients through the next forward, results until the next ones are there. */
#include <stdlib.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"


/* ---- gradients ------------------------------------------------------------------------------- */

/* How often parameters were updated from one event on, up to another. */
static unsigned updates(const struct jobpart *j, uint64_t from, uint64_t to)
{
	const struct steps_bounds *updated = &j->device->process->lives->steps.updated;
	unsigned nr = 0;

	for (uint32_t i = 0; i < updated->nr_bounds; i++)
		nr += updated->ordinal[i] > from && updated->ordinal[i] <= to;
	return nr;
}

/* Was it made for the window's own step, as others were for earlier ones? A gradient that is kept as zeros is of the first. */
static bool is_made_anew(const struct jobpart *j, const struct life *life)
{
	return updates(j, 0, life->birth.ordinal) && updates(j, life->birth.ordinal, j->from) == 1;
}

enum stay { STAYS_NOT, STAYS_FOREVER, STAYS_LATE };

/* A gradient that has been used, and is still there: for the next pass to add to, or until zero_grad comes. */
static enum stay stays(const struct jobpart *j, size_t i)
{
	const struct category_block *b = &j->blocks.block[i];

	if (b->category != CATEGORY_GRADIENT || b->life.birth.ordinal >= j->from || !updates(j, b->life.birth.ordinal, j->from))
		return STAYS_NOT;
	if (b->life.death.ordinal <= j->backward && b->life.death.ordinal <= j->to)
		return STAYS_LATE;
	return j->asked && is_made_anew(j, &b->life) ? STAYS_LATE : STAYS_FOREVER;
}

/*
 * What backward made to be added to a gradient that was there: it would have become the gradient itself. Blocks of
 * equal tensors may differ, where the allocator left no rest of one.
 */
static bool is_addend(const struct jobpart *j, size_t i, size_t gradient)
{
	const struct category_block *b = &j->blocks.block[i];

	return b->category == CATEGORY_TEMPORARY && jobpart_is_born(j, i, PHASE_BACKWARD) &&
	       j->key[i] == j->key[gradient] && j->shape[i].bytes == j->shape[gradient].bytes &&
	       b->life.death.ordinal <= j->to;
}

/* One that nobody has taken, of the same module where modules are known; SIZE_MAX: none. */
static size_t find_addend(const struct jobpart *j, size_t gradient, const bool *taken)
{
	const struct category_block *g = &j->blocks.block[gradient];
	size_t other = SIZE_MAX;

	for (size_t i = gradient + 1; i < j->blocks.nr_blocks && j->key[gradient]; i++) {
		if (taken[i] || !is_addend(j, i, gradient))
			continue;
		if (g->module && j->blocks.block[i].module == g->module)
			return i;
		other = i;
	}
	return other;
}

/* What stayed. */
struct stays {
	uint64_t bytes;
	bool is_late;
	uint32_t stack; /* where what stayed late ends; 0: not known */
};

/* The peak if these gradients went with the step. */
static uint64_t without_stays(const struct jobpart *j, struct stays *s)
{
	bool *taken = heap_alloc(j->blocks.nr_blocks, sizeof(*taken));
	struct edits e = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		enum stay stay = stays(j, i);
		size_t addend = stay == STAYS_FOREVER ? find_addend(j, i, taken) : SIZE_MAX;

		if (stay == STAYS_NOT)
			continue;
		s->bytes += life->size;
		s->is_late |= stay == STAYS_LATE;
		if (stay == STAYS_LATE && life->death.ordinal <= j->to)
			s->stack = life->death.stack;
		edits_resize(&e, life->birth.ordinal, 0);
		if (addend != SIZE_MAX) {
			taken[addend] = true;
			edits_resize(&e, j->blocks.block[addend].life.birth.ordinal, 0);
			edits_more(&e, j->blocks.block[addend].life.birth.ordinal, life->death.ordinal, life->size);
		} else if (stay == STAYS_FOREVER) {
			edits_more(&e, j->backward, life->death.ordinal, life->size);
		}
	}
	free(taken);
	return editpeak_once(j, &e);
}

bool advice_set_to_none(const struct jobpart *j, struct advice *a)
{
	struct stays s = { 0 };
	struct fact site;

	a->after_bytes = without_stays(j, &s);
	if (!s.bytes)
		return false;
	if (s.stack)
		advice_at_stack(j, a, s.stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(gradients_to_none, site);
	a->action = s.is_late ? SAID(gradients_earlier_action, site) : SAID(gradients_to_none_action, NO_FACTS);
	a->evidence = SAID(gradients_stay, fact_bytes("bytes", s.bytes));
	a->cost = SAID(gradients_anew, NO_FACTS);
	return true;
}

/* ---- two generations ------------------------------------------------------------------------- */

static bool may_go(enum category category)
{
	return category == CATEGORY_ACTIVATION || category == CATEGORY_TEMPORARY || category == CATEGORY_INPUT ||
	       category == CATEGORY_UNKNOWN;
}

/* Of each group the first block that was made in the window after that ordinal, itself + 1. */
static uint64_t *first_of_groups(const struct jobpart *j, uint64_t from)
{
	uint64_t *first = heap_alloc(books_nr_groups(j->device->process->books), sizeof(*first));

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (life->birth.ordinal >= from && !first[life->group])
			first[life->group] = life->birth.ordinal + 1;
	}
	return first;
}

struct generations {
	uint64_t *first;  /* first_of_groups() of the window */
	uint64_t *later; /* first_of_groups() of what comes after the beginning of its backward */
};

/*
 * Where a block would have ended before the same line made the next one: the window's beginning, or, of what the
 * window made before its backward and replaced after it, the next one's birth. That one's maker must be the last to
 * have had use for it: it goes next. TFMT_NO_ORDINAL: there is no next one.
 */
static uint64_t end_before(const struct jobpart *j, const struct generations *g, const struct life *life)
{
	uint64_t next;

	if (life->death.ordinal > j->to)
		return TFMT_NO_ORDINAL;
	if (life->birth.ordinal < j->from) {
		next = g->first[life->group];
		return next > j->from && next - 1 < life->death.ordinal ? j->from : TFMT_NO_ORDINAL;
	}
	next = g->later[life->group];
	if (life->birth.ordinal >= j->backward || !next || next - 1 >= life->death.ordinal ||
	    life->death.ordinal - next > REPLACED_WITHIN)
		return TFMT_NO_ORDINAL;
	return next - 1;
}

bool advice_free_before(const struct jobpart *j, struct advice *a)
{
	struct generations g = { first_of_groups(j, j->from), first_of_groups(j, j->backward) };
	uint64_t bytes = 0, most = 0;
	struct edits e = { 0 };
	struct fact site;
	uint32_t stack = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];
		uint64_t end = may_go(b->category) ? end_before(j, &g, &b->life) : TFMT_NO_ORDINAL;

		if (end == TFMT_NO_ORDINAL)
			continue;
		edits_step(&e, end, EDIT_FREE, b->life.birth.ordinal);
		bytes += b->life.size;
		if (b->life.size > most) {
			most = b->life.size;
			stack = b->life.death.stack;
		}
	}
	free(g.first);
	free(g.later);
	a->after_bytes = editpeak_once(j, &e);
	if (!bytes)
		return false;
	advice_at_stack(j, a, stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(result_del, site);
	a->action = SAID(result_del_action, site);
	a->evidence = SAID(results_meet, fact_bytes("bytes", bytes));
	a->cost = SAID(costs_nothing, NO_FACTS);
	return true;
}
