/* SPDX-License-Identifier: MIT */
/* What patterns ask about the blocks of a moment. */
#include "analyzer/patterns/moment.h"

const struct group *moment_group(const struct moment *at, size_t block)
{
	return books_group(at->device->process->books, at->live[block].life.group);
}

const struct lives_fates *moment_fates(const struct moment *at, size_t block)
{
	const struct lives *lives = at->device->process->lives;
	uint32_t group = at->live[block].life.group;

	return group < lives->nr_fates ? &lives->fates[group] : NULL;
}

bool moment_is_in_graph(const struct moment *at, size_t i)
{
	return at->block[i].has_graph || at->block[i].is_native;
}

bool moment_is_passing(enum category c)
{
	return c != CATEGORY_PARAMETER && c != CATEGORY_GRADIENT && c != CATEGORY_OPTIMIZER_STATE;
}

uint64_t moment_elements(const struct tfmt_shape *s, uint32_t nr_dims)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < nr_dims; i++)
		n *= s->dims[i];
	return n;
}
