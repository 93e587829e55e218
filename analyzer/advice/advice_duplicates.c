/* SPDX-License-Identifier: MIT */
/*
 * Advice about what is on the device twice: a checkpoint (saved weights) that stays after it was copied into the model,
 * and clones of tensors that stay, too.
 *
 * That two blocks hold the same is known where the one was copied into the other as a whole (TFMT_COPY). Copies by deepcopy
 * are made on purpose (an average of the weights, a frozen reference): nothing is said of them.
 */
#include <stddef.h>
#include <stdlib.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/recording/sorted.h"

/* What would go. */
struct twice {
	bool *goes; /* by block */
	size_t nr, largest;
	uint64_t bytes, copied_bytes;
	struct objectname holder; /* what has a checkpoint; "": not known */
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

/* The block whose tensor was copied as a whole into this one; SIZE_MAX: none is known. */
static size_t original_of(const struct jobpart *j, size_t copy)
{
	uint64_t ordinal = j->blocks.block[copy].life.original;
	size_t i = sorted_below(j->blocks.block, j->blocks.nr_blocks, sizeof(*j->blocks.block),
				offsetof(struct category_block, life.birth.ordinal), ordinal);

	return i < j->blocks.nr_blocks && j->blocks.block[i].life.birth.ordinal == ordinal ? i : SIZE_MAX;
}

/* ---- a checkpoint ---------------------------------------------------------------------------- */

/* Did torch.load put it where it is? */
static bool is_loaded(const struct jobpart *j, uint32_t python_stack)
{
	static const char *const loaders[] = { "/torch/serialization.py", "/safetensors/", NULL };

	return advice_runs_in(j, python_stack, loaders);
}

/* What else was loaded into the container of what was copied, and is held by nothing else, goes with it. */
static void add_rest(struct twice *t, const struct jobpart *j, uint64_t last)
{
	struct namedblocks_container all, own;

	if (!namedblocks_container(&all, j->device->process, &j->blocks.block[t->largest].life))
		return;
	namedblocks_container_name(&t->holder, &all);
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (!t->goes[i] && life->death.ordinal > last && is_loaded(j, life->birth.stack) &&
		    namedblocks_container(&own, j->device->process, life) && own.is_alone && own.census == all.census &&
		    own.object == all.object)
			add(t, j, i);
	}
}

/* What was loaded, copied into the model, and is there when the window's last block is made. */
static bool find_checkpoint(struct twice *t, const struct jobpart *j)
{
	uint64_t last = j->blocks.nr_blocks ? j->blocks.block[j->blocks.nr_blocks - 1].life.birth.ordinal : 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		enum category category = j->blocks.block[i].category;
		size_t original = category == CATEGORY_PARAMETER || category == CATEGORY_BUFFER ? original_of(j, i) : SIZE_MAX;
		const struct life *life = original == SIZE_MAX ? NULL : &j->blocks.block[original].life;

		if (life && life->death.ordinal > last && !t->goes[original] && is_loaded(j, life->birth.stack))
			add(t, j, original);
	}
	t->copied_bytes = t->bytes;
	if (t->nr)
		add_rest(t, j, last);
	return t->nr;
}

/* ---- clones ---------------------------------------------------------------------------------- */

static bool stays(const struct jobpart *j, size_t i)
{
	return jobpart_is_kept(j, i) && j->blocks.block[i].life.death.ordinal > j->backward;
}

static bool find_clones(struct twice *t, const struct jobpart *j)
{
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		size_t original = stays(j, i) ? original_of(j, i) : SIZE_MAX;

		if (original != SIZE_MAX && (stays(j, original) || j->blocks.block[original].life.death.ordinal > j->to))
			add(t, j, i);
	}
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
	struct fact holder = fact_if(*t->holder.text, fact_name("holder", t->holder.text));

	struct fact is_unnamed = fact_flag("is_unnamed", !*t->holder.text);

	a->title = SAID(checkpoint_free, site, holder, is_unnamed);
	a->action = SAID(checkpoint_free_action, site, holder, is_unnamed);
	a->evidence = SAID(checkpoint_stays, fact_count("tensors", t->nr), fact_bytes("bytes", t->bytes),
			   fact_bytes("copied", t->copied_bytes));
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
