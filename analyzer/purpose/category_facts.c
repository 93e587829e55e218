/* SPDX-License-Identifier: MIT */
/* Censuses asked for what blocks are for. */
#include "analyzer/purpose/category_facts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define TOLD_APART (NR_CATEGORIES + 1) /* of one block this, of another that */

void category_facts_init(struct category_facts *f, const struct replay_process *process)
{
	size_t nr = (size_t)books_nr_groups(process->books) * NR_FATES;

	f->names = process->names;
	f->told = memset(heap_alloc(nr, 1), NR_CATEGORIES, nr);
}

void category_facts_release(struct category_facts *f)
{
	free(f->told);
}

struct names_block category_facts_block(const struct life *life)
{
	return (struct names_block){ life->address, life->size, life->birth.ordinal, life->death.ordinal, life->device };
}

static uint8_t *told_of(const struct category_facts *f, const struct life *life, enum lives_fate fate)
{
	return &f->told[(size_t)life->group * NR_FATES + fate];
}

bool category_facts_saw(const struct category_facts *f, const struct life *life)
{
	struct names_block block = category_facts_block(life);

	return f->names && names_saw(f->names, &block);
}

enum category category_facts_learn(struct category_facts *f, const struct life *life, enum lives_fate fate)
{
	static const enum category categories[] = {
		[USE_PARAMETER] = CATEGORY_PARAMETER,
		[USE_BUFFER] = CATEGORY_BUFFER,
		[USE_GRADIENT] = CATEGORY_GRADIENT,
		[USE_OPTIMIZER_STATE] = CATEGORY_OPTIMIZER_STATE,
		[USE_UNKNOWN] = NR_CATEGORIES,
	};
	struct names_block block = category_facts_block(life);
	uint8_t *told = told_of(f, life, fate);
	enum category category;

	if (!category_facts_saw(f, life))
		return NR_CATEGORIES;
	category = categories[names_use(f->names, &block)];
	if (category == NR_CATEGORIES || (*told != NR_CATEGORIES && *told != category))
		*told = TOLD_APART;
	else
		*told = (uint8_t)category;
	return category;
}

enum category category_facts_by_likes(const struct category_facts *f, const struct life *life, enum lives_fate fate)
{
	uint8_t told = *told_of(f, life, fate);

	return told < NR_CATEGORIES ? (enum category)told : NR_CATEGORIES;
}
