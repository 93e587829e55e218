/* SPDX-License-Identifier: MIT */
/* What causes ask about the blocks of an autopsy, and about what was found before. */
#include "analyzer/oom/autopsy_facts.h"

#include <string.h>

#include "analyzer/oom/oom_thresholds.h"

const struct group *autopsy_group(const struct autopsy *a, size_t block)
{
	return books_group(a->device->process->books, a->categories.block[block].life.group);
}

const struct lives_fates *autopsy_fates(const struct autopsy *a, size_t block)
{
	const struct lives *lives = a->device->process->lives;
	uint32_t group = a->categories.block[block].life.group;

	return group < lives->nr_fates ? &lives->fates[group] : NULL;
}

bool autopsy_is_passing(enum category c)
{
	return c != CATEGORY_PARAMETER && c != CATEGORY_GRADIENT && c != CATEGORY_OPTIMIZER_STATE;
}

uint64_t autopsy_elements(const struct tfmt_shape *s, uint32_t nr_dims)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < nr_dims; i++)
		n *= s->dims[i];
	return n;
}

bool autopsy_matters(const struct autopsy *a, uint64_t bytes)
{
	return bytes >= a->lacking && bytes >= a->failure->allocated / MATTERS_PART;
}

/* One tensor out of line, that no smaller batch mends. */
static bool is_one_tensor(const struct autopsy *a)
{
	return !strcmp(a->finding[0].cause, "larger_tensor");
}

bool autopsy_is_about_size(const struct autopsy *a)
{
	enum verdict verdict;

	if (!a->nr_findings)
		return true;
	verdict = a->finding[0].verdict;
	return a->device && verdict != VERDICT_LEAK && verdict != VERDICT_GRAPH_RETENTION &&
	       verdict != VERDICT_CYCLE && verdict != VERDICT_EXCEPTION && !is_one_tensor(a);
}
