/* SPDX-License-Identifier: MIT */
#include "analyzer/growth/stepkeeper.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/purpose/category.h"
#include "analyzer/purpose/optimizerstates.h"

/* Each entry has one block of this name: a name of several blocks has one number more than its container. */
static void find_bound(struct stepkeeper *k, const struct namegroup *g, const struct names *names)
{
	double each = (double)g->bytes / (double)g->blocks;
	struct keeper by;
	uint64_t entries;

	if (!groupkeeper_bounded(&by, g) || !names_lengths(names, &by, &entries, 1) || entries >= by.bound)
		return;
	k->entries = entries;
	k->bound = by.bound;
	k->full_bytes = each * (double)by.bound;
	k->left_bytes = each * (double)(by.bound - entries);
}

/* A block of the stack's that is an optimizer's state, or a parameter, by its shape. */
struct shaped {
	uint32_t shape;
	bool is_state;
};

static int by_shape(const void *va, const void *vb)
{
	const struct shaped *a = va, *b = vb;

	return (a->shape > b->shape) - (a->shape < b->shape);
}

/*
 * What came after the census has no name: is most of what a stack has an optimizer's state, no more tensors of any shape than there were
 * parameters of it when the growth began? Each line of an optimizer's makes one for each parameter.
 */
static bool is_state_by_shapes(const struct replay_device *d, uint32_t stack, enum lives_moment moment, uint64_t began)
{
	struct categories c = CATEGORIES_INIT;
	uint64_t bytes = 0, of_states = 0;
	struct shaped *of;
	bool is_once = true;
	size_t nr = 0;

	categories_find(&c, d->process, d->ordinal, moment, d->books->allocated_peak_bytes);
	of = heap_alloc(c.nr_blocks, sizeof(*of));
	for (size_t i = 0; i < c.nr_blocks; i++) {
		const struct category_block *b = &c.block[i];
		const struct group *g = books_group(d->process->books, b->life.group);
		bool is_state = g->python_stack == stack && b->category == CATEGORY_OPTIMIZER_STATE &&
				b->life.birth.phase == PHASE_OPTIMIZER;

		bytes += g->python_stack == stack ? b->life.size : 0;
		of_states += is_state ? b->life.size : 0;
		if (is_state || (b->category == CATEGORY_PARAMETER && b->life.birth.ordinal < began))
			of[nr++] = (struct shaped){ g->shape, is_state };
	}
	qsort(of, nr, sizeof(*of), by_shape);
	for (size_t i = 0, end; i < nr; i = end) {
		size_t states = 0;

		for (end = i; end < nr && of[end].shape == of[i].shape; end++)
			states += of[end].is_state;
		is_once &= 2 * states <= end - i;
	}
	free(of);
	categories_release(&c);
	return is_once && 2 * of_states > bytes;
}

/* What parameters that are trained later get, as where layers are unfrozen one after another. */
static bool is_state(const struct replay_device *d, uint32_t group, uint64_t began, bool has_name)
{
	const struct replay_process *p = d->process;
	enum lives_moment moment = categories_moment(p, d->ordinal, MARK_TENSOR_PEAK);
	uint32_t stack = books_group(p->books, group)->python_stack;
	struct optimizerstates states = { 0 };
	uint64_t bytes = 0, of_states = 0;
	struct life *life;
	bool is_once;
	size_t nr;

	if (!p->names || moment == LIVES_NONE)
		return false;
	lives_list(p->lives, d->ordinal, moment, &life, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (books_group(p->books, life[i].group)->python_stack != stack)
			continue;
		bytes += life[i].size;
		of_states += optimizerstates_add(&states, p, &life[i], moment, i) ? life[i].size : 0;
	}
	optimizerstates_sort(&states);
	is_once = states.nr;
	for (size_t i = 0; i < states.nr && is_once; i++)
		is_once = !optimizerstates_is_older(&states, i);
	optimizerstates_release(&states);
	free(life);
	return is_once && (has_name ? 2 * of_states > bytes : is_state_by_shapes(d, stack, moment, began));
}

void stepkeeper_find(struct stepkeeper *k, const struct replay_device *d, uint32_t group, uint64_t began)
{
	const struct namegroup *most;
	struct keeper nearest, next, container;
	struct namegroups names;

	*k = (struct stepkeeper){ 0 };
	namedblocks_of_stack(&names, d, group);
	most = namegroups_most(&names);
	k->is_known = most && most->named.name.root != ROOT_NATIVE && groupkeeper_nearest(&nearest, &next, most);
	if (k->is_known && keeper_has_entries(&nearest))
		container = nearest;
	k->has_entries = k->is_known && (keeper_has_entries(&nearest) || groupkeeper_container(&container, most));
	k->stays_as_long = k->has_entries && names_growth_of(d->process->names, &container, began) == NAMES_STAYED;
	k->is_of_model = k->is_known && most->named.use == USE_PARAMETER;
	if (k->is_known)
		find_bound(k, most, d->process->names);
	k->is_state = (k->is_known || !most || !most->is_named) && is_state(d, group, began, k->is_known);
	namegroups_release(&names);
}
