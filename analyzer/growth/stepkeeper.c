/* SPDX-License-Identifier: MIT */
#include "analyzer/growth/stepkeeper.h"

#include <stdlib.h>

#include "analyzer/names/groupkeeper.h"
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

/* What parameters that are trained later get, as where layers are unfrozen one after another. What came after the census has no name. */
static bool is_state(const struct replay_device *d, uint32_t group)
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
	is_once = 2 * of_states > bytes;
	for (size_t i = 0; i < states.nr && is_once; i++)
		is_once = !optimizerstates_is_older(&states, i);
	optimizerstates_release(&states);
	free(life);
	return is_once;
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
	if (k->is_known)
		find_bound(k, most, d->process->names);
	k->is_state = k->is_known && is_state(d, group);
	namegroups_release(&names);
}
