/* SPDX-License-Identifier: MIT */
#include "analyzer/purpose/optimizerstates.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/modelkeeper.h"

bool optimizerstates_add(struct optimizerstates *s, const struct replay_process *process, const struct life *life,
			 enum lives_moment moment, size_t block)
{
	struct modelkeeper k;
	struct named named;
	const char *text;

	if (!namedblocks_name(&named, process, life, moment) || !modelkeeper_find(&k, named.census->census, named.object) ||
	    !k.optimizer || !k.parameter)
		return false;
	text = named.name.text;
	s->state = heap_grow(s->state, &s->room, s->nr + 1, sizeof(*s->state));
	s->state[s->nr++] = (struct optimizerstate){ block, named.census, k.optimizer, k.parameter,
						     textset_add(&s->names, 0, text, strlen(text))->number };
	return true;
}

static int by_name(const void *va, const void *vb)
{
	const struct optimizerstate *a = va, *b = vb;

	if (a->census != b->census)
		return a->census < b->census ? -1 : 1;
	if (a->parameter != b->parameter)
		return a->parameter < b->parameter ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return (a->block > b->block) - (a->block < b->block);
}

void optimizerstates_sort(struct optimizerstates *s)
{
	if (s->nr)
		qsort(s->state, s->nr, sizeof(*s->state), by_name);
}

static bool has_name_of(const struct optimizerstate *a, const struct optimizerstate *b)
{
	return a->census == b->census && a->parameter == b->parameter && a->name == b->name;
}

bool optimizerstates_is_older(const struct optimizerstates *s, size_t i)
{
	size_t last = i;

	while (last + 1 < s->nr && has_name_of(&s->state[last + 1], &s->state[i]))
		last++;
	return s->state[last].optimizer != s->state[i].optimizer;
}

void optimizerstates_release(struct optimizerstates *s)
{
	free(s->state);
	textset_release(&s->names);
}
