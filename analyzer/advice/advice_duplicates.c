/* SPDX-License-Identifier: MIT */
/*
 * Advice about what is on the device twice: a checkpoint (saved weights) that stays after it was copied into the model,
 * and clones of tensors that stay, too.
 *
 * That two blocks hold the same is nowhere recorded. What counts as evidence is who made the one (torch.load, .clone())
 * and that the other, of the same size, is there all the while. Copies by deepcopy are made on purpose (an average of
 * the weights, a frozen reference): nothing is said of them.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/stacks/sourceline.h"
#include "analyzer/stacks/sourcetext.h"


/* What would go. */
struct twice {
	bool *goes; /* by block */
	size_t nr, largest;
	uint64_t bytes;
};

static void add(struct twice *t, const struct jobpart *j, size_t i)
{
	uint64_t size = j->blocks.block[i].life.size;

	t->goes[i] = true;
	t->nr++;
	t->bytes += size;
	if (t->nr == 1 || size > j->blocks.block[t->largest].life.size)
		t->largest = i;
}

/* ---- a checkpoint ---------------------------------------------------------------------------- */

/* Did torch.load put it where it is? */
static bool is_loaded(const struct jobpart *j, uint32_t python_stack)
{
	static const char *const loaders[] = { "/torch/serialization.py", "/safetensors/", NULL };

	return advice_runs_in(j, python_stack, loaders);
}

struct sized {
	uint64_t size;
	size_t block;
};

static int by_size(const void *va, const void *vb)
{
	const struct sized *a = va, *b = vb;

	return (a->size > b->size) - (a->size < b->size);
}

/* Blocks of the model that are there when the window's last one is made: loaded ones, and others. */
struct weights {
	struct sized *loaded, *other;
	size_t nr_loaded, nr_other;
	uint64_t loaded_bytes, other_bytes;
	bool has_state;
};

static void find_weights(struct weights *w, const struct jobpart *j)
{
	uint64_t last = j->blocks.nr_blocks ? j->blocks.block[j->blocks.nr_blocks - 1].life.birth.ordinal : 0;
	uint32_t latest = 0;
	bool latest_loaded = false;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];
		struct sized one = { b->life.size, i };

		w->has_state |= b->category == CATEGORY_OPTIMIZER_STATE;
		if (b->life.death.ordinal <= last || b->category != CATEGORY_PARAMETER)
			continue;
		if (b->life.birth.stack != latest) {
			latest = b->life.birth.stack;
			latest_loaded = is_loaded(j, latest);
		}
		if (latest_loaded) {
			w->loaded[w->nr_loaded++] = one;
			w->loaded_bytes += one.size;
		} else {
			w->other[w->nr_other++] = one;
			w->other_bytes += one.size;
		}
	}
	qsort(w->loaded, w->nr_loaded, sizeof(*w->loaded), by_size);
	qsort(w->other, w->nr_other, sizeof(*w->other), by_size);
}

/* Each parameter's size is looked for among what was loaded. */
static void match(struct twice *t, const struct jobpart *j, const struct weights *w)
{
	for (size_t i = 0, k = 0; i < w->nr_loaded && k < w->nr_other;) {
		if (w->loaded[i].size == w->other[k].size) {
			add(t, j, w->loaded[i++].block);
			k++;
		} else if (w->loaded[i].size < w->other[k].size) {
			i++;
		} else {
			k++;
		}
	}
}

/*
 * An optimizer that was loaded keeps what it was given, and Adam's state is of twice the parameters: where nothing else
 * is the state, twice is no evidence.
 */
static bool is_evident(const struct twice *t, const struct weights *w)
{
	uint64_t less = w->loaded_bytes < w->other_bytes ? w->loaded_bytes : w->other_bytes;

	if (!t->bytes || (double)t->bytes < LIKELY_SHARE * (double)less)
		return false;
	return w->has_state || (w->loaded_bytes + t->bytes / 2) / t->bytes != 2;
}

static bool find_checkpoint(struct twice *t, const struct jobpart *j)
{
	struct weights w = { 0 };

	w.loaded = heap_alloc(j->blocks.nr_blocks, sizeof(*w.loaded));
	w.other = heap_alloc(j->blocks.nr_blocks, sizeof(*w.other));
	find_weights(&w, j);
	match(t, j, &w);
	free(w.loaded);
	free(w.other);
	return is_evident(t, &w);
}

/* ---- clones ---------------------------------------------------------------------------------- */

/* What was allocated directly before or after a block, by another line or none. */
static bool is_alone(const struct jobpart *j, size_t i, const struct stack_frame *site)
{
	size_t beside[] = { i - 1, i + 1 };

	for (size_t k = 0; k < 2; k++) {
		struct advice at = { 0 };

		if (beside[k] >= j->blocks.nr_blocks)
			continue;
		advice_at_stack(j, &at, j->blocks.block[beside[k]].life.birth.stack);
		if (at.has_site && sourceline_is_same(&at.site, site))
			return false;
	}
	return true;
}

/* Does the line that made it say so? Only of a line that makes nothing else is it clear which block the clone is. */
static bool is_clone(const struct jobpart *j, struct sourcetext *sources, size_t i)
{
	struct advice at = { 0 };
	const char *line;
	size_t len;

	advice_at_stack(j, &at, j->blocks.block[i].life.birth.stack);
	line = at.has_site ? sourcetext_line(sources, at.site.file, at.site.line, &len) : NULL;
	return line && memmem(line, len, ".clone(", strlen(".clone(")) && is_alone(j, i, &at.site);
}

static bool stays(const struct jobpart *j, size_t i)
{
	return jobpart_is_kept(j, i) && j->blocks.block[i].life.death.ordinal > j->backward;
}

/* The latest of its shape and type that was there; SIZE_MAX: none. */
static size_t original_of(const struct jobpart *j, size_t clone)
{
	const struct life *life = &j->blocks.block[clone].life;

	for (size_t i = clone; i-- > 0;) {
		const struct life *other = &j->blocks.block[i].life;

		if (other->death.ordinal > life->birth.ordinal && j->key[i] == j->key[clone] &&
		    other->size == life->size && j->shape[i].element_type == j->shape[clone].element_type)
			return i;
	}
	return SIZE_MAX;
}

static bool find_clones(struct twice *t, const struct jobpart *j)
{
	struct sourcetext sources = { .reader = j->device->process->reader };
	uint32_t latest = 0;
	bool latest_clone = false;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		size_t original;

		if (!stays(j, i) || !j->key[i] || (double)life->size < (double)j->peak / COPY_LOOKED_PART)
			continue;
		if (life->birth.stack != latest) {
			latest = life->birth.stack;
			latest_clone = is_clone(j, &sources, i);
		}
		original = latest_clone ? original_of(j, i) : SIZE_MAX;
		if (original == SIZE_MAX)
			continue;
		if (stays(j, original) || j->blocks.block[original].life.death.ordinal > j->to)
			add(t, j, i);
	}
	sourcetext_release(&sources);
	return t->nr;
}

/* ---- both ------------------------------------------------------------------------------------ */

static uint64_t peak_without(const struct jobpart *j, const struct twice *t)
{
	struct edits e = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (t->goes[i])
			edits_resize(&e, j->blocks.block[i].life.birth.ordinal, 0);
	return editpeak_once(j, &e);
}

static void tell_checkpoint(const struct twice *t, struct advice *a)
{
	struct fact site = fact_if(a->has_site, fact_site("site", &a->site));

	a->title = SAID(checkpoint_free, site);
	a->action = SAID(checkpoint_free_action, site);
	a->evidence = SAID(checkpoint_stays, fact_count("tensors", t->nr), fact_bytes("bytes", t->bytes));
	a->cost = SAID(checkpoint_free_cost, NO_FACTS);
}

static void tell_clones(const struct twice *t, struct advice *a)
{
	struct fact site = fact_if(a->has_site, fact_site("site", &a->site));

	a->title = SAID(clone_not, site);
	a->action = SAID(clone_not_action, site);
	a->evidence = SAID(clones_stay, fact_count("clones", t->nr), fact_bytes("bytes", t->bytes));
	a->cost = SAID(costs_nothing, NO_FACTS);
}

bool advice_duplicates(const struct jobpart *j, struct advice *a)
{
	static const struct {
		bool (*find)(struct twice *t, const struct jobpart *j);
		void (*tell)(const struct twice *t, struct advice *a);
	} kinds[] = { { find_checkpoint, tell_checkpoint }, { find_clones, tell_clones } };

	a->after_bytes = a->peak_bytes;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		struct twice t = { .goes = heap_alloc(j->blocks.nr_blocks, sizeof(*t.goes)) };
		uint64_t after = kinds[k].find(&t, j) ? peak_without(j, &t) : a->after_bytes;

		if (after < a->after_bytes) {
			a->after_bytes = after;
			advice_at_program(j, a, j->blocks.block[t.largest].life.birth.stack);
			kinds[k].tell(&t, a);
		}
		free(t.goes);
	}
	return a->after_bytes < a->peak_bytes;
}
