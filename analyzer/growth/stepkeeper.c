/* SPDX-License-Identifier: MIT */
#include "analyzer/growth/stepkeeper.h"

#include "analyzer/names/groupkeeper.h"
#include "analyzer/purpose/namedblocks.h"

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

void stepkeeper_find(struct stepkeeper *k, const struct replay_device *d, uint32_t group)
{
	const struct namegroup *most;
	struct keeper nearest, next, container;
	struct namegroups names;

	*k = (struct stepkeeper){ 0 };
	namedblocks_of_stack(&names, d, group);
	most = namegroups_most(&names);
	k->is_known = most && most->named.name.root != ROOT_NATIVE && groupkeeper_nearest(&nearest, &next, most);
	k->has_entries = k->is_known && (keeper_has_entries(&nearest) || groupkeeper_container(&container, most));
	if (k->is_known)
		find_bound(k, most, d->process->names);
	namegroups_release(&names);
}
