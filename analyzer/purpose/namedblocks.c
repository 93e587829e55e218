/* SPDX-License-Identifier: MIT */
/* Names for the blocks of a moment. */
#include "analyzer/purpose/namedblocks.h"

#include <stdlib.h>

#include "analyzer/names/objectway.h"
#include "analyzer/purpose/category_facts.h"

_Static_assert(NR_CATEGORIES <= NAMEGROUPS_KINDS, "a group has a sum for each category");

/* The event after which the moment is; TFMT_NO_ORDINAL: the end. */
static uint64_t ordinal_of(const struct replay_process *process, uint32_t device, enum lives_moment moment)
{
	const struct lives_device *d = process->lives->device[device];

	return d && moment < NR_LIVES_MOMENTS && d->moment[moment].reached ? d->moment[moment].ordinal :
									     TFMT_NO_ORDINAL;
}

bool namedblocks_name(struct named *out, const struct replay_process *process, const struct life *life,
		      enum lives_moment moment)
{
	struct names_block block = category_facts_block(life);

	return process->names && names_find(out, process->names, &block, ordinal_of(process, life->device, moment));
}

bool namedblocks_container(struct namedblocks_container *out, const struct replay_process *process, const struct life *life)
{
	struct named named;

	if (!namedblocks_name(&named, process, life, LIVES_END))
		return false;
	out->census = named.census->census;
	out->object = objectway_container(out->census, named.object);
	out->is_alone = named.holders == 1 && !named.nr_others;
	return out->object;
}

void namedblocks_container_name(struct objectname *name, const struct namedblocks_container *container)
{
	objectname_find(name, container->census, container->object);
}

void namedblocks_find(struct namegroups *g, const struct replay_process *process, const struct categories *c,
		      enum lives_moment moment, uint64_t total)
{
	uint64_t known = 0;
	struct named named;

	*g = (struct namegroups){ 0 };
	for (size_t i = 0; i < c->nr_blocks; i++) {
		const struct category_block *b = &c->block[i];
		bool has_name = namedblocks_name(&named, process, &b->life, moment);

		namegroups_add(g, has_name ? &named : NULL, b->category, b->life.size, 1);
		known += b->life.size;
	}
	if (total > known)
		namegroups_add(g, NULL, CATEGORY_UNKNOWN, total - known, 0);
	namegroups_sort(g);
}

void namedblocks_of_python(struct namegroups *g, const struct replay_device *d, uint32_t python_stack,
			   enum lives_moment moment)
{
	const struct replay_process *p = d->process;
	struct life *life;
	struct named named;
	size_t nr;

	*g = (struct namegroups){ 0 };
	if (!p->names || moment == LIVES_NONE)
		return;
	lives_list(p->lives, d->ordinal, moment, &life, &nr);
	for (size_t i = 0; i < nr; i++) {
		bool has_name;

		if (books_group(p->books, life[i].group)->python_stack != python_stack)
			continue;
		has_name = namedblocks_name(&named, p, &life[i], moment);
		namegroups_add(g, has_name ? &named : NULL, 0, life[i].size, 1);
	}
	free(life);
}

void namedblocks_of_stack(struct namegroups *g, const struct replay_device *d, uint32_t group)
{
	namedblocks_of_python(g, d, books_group(d->process->books, group)->python_stack,
			      categories_moment(d->process, d->ordinal, MARK_TENSOR_PEAK));
}

struct namedblocks_share namedblocks_share(const struct replay_device *d)
{
	struct namedblocks_share share = { .inferred_bytes = d->books->allocated_peak_bytes };
	enum lives_moment peak = categories_moment(d->process, d->ordinal, MARK_TENSOR_PEAK);
	struct categories c;
	struct named named;

	categories_find(&c, d->process, d->ordinal, peak, d->books->allocated_peak_bytes);
	for (size_t i = 0; i < c.nr_blocks; i++) {
		const struct category_block *b = &c.block[i];

		if (namedblocks_name(&named, d->process, &b->life, peak))
			share.named_bytes += b->life.size;
		if (b->is_fact)
			share.inferred_bytes -= b->life.size;
	}
	categories_release(&c);
	return share;
}
