/* SPDX-License-Identifier: MIT */
/* What causes ask about the blocks of an autopsy, and about what was found before. */
#include "analyzer/oom/autopsy_facts.h"

#include <string.h>

#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/recording/idtable.h"

const struct group *autopsy_group(const struct autopsy *a, size_t block)
{
	return books_group(a->device->process->books, a->categories.block[block].life.group);
}

const struct lives_fates *autopsy_fates(const struct autopsy *a, size_t block)
{
	return moment_fates(&a->moment, block);
}

void *autopsy_by_stack(const struct autopsy *a, size_t row_bytes, uint32_t *nr_stacks)
{
	const struct replay_process *p = a->device->process;
	void *of = NULL;

	*nr_stacks = 0;
	for (uint32_t i = 0; i < books_nr_groups(p->books); i++)
		if (books_group(p->books, i)->tensor)
			of = idtable_grown(of, nr_stacks, books_group(p->books, i)->python_stack, row_bytes, p->reader);
	return of;
}

uint64_t autopsy_nr_freed(const struct autopsy *a, size_t place)
{
	const struct lives_fates *fates, *before = NULL;
	uint64_t nr = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (a->block[i].place != place)
			continue;
		fates = autopsy_fates(a, i);
		for (int k = 0; fates && fates != before && k < NR_FATES; k++)
			nr += fates->nr[k];
		before = fates;
	}
	return nr;
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

bool autopsy_is_of_graph(const struct autopsy *a, size_t block)
{
	return a->block[block].has_graph || (a->block[block].is_native && a->graph_holder);
}

const struct autopsy_place *autopsy_main_place(const struct autopsy *a)
{
	const struct autopsy_place *p = a->nr_places ? &a->place[0] : NULL;

	return p && 2 * p->bytes > a->failure->allocated && moment_is_passing(a->categories.block[p->largest].category) ? p : NULL;
}

bool autopsy_is_held_by_graph(const struct autopsy *a, size_t block)
{
	const struct moment_block *b = &a->block[block];

	return b->has_graph && (b->is_native || (a->is_seen_now && b->is_unseen));
}

bool autopsy_is_creation(const char *operation)
{
	static const char *const names[] = { "empty", "zeros", "ones", "full", "rand", "new_", "to_", "_to_copy" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(operation, names[i], strlen(names[i])))
			return true;
	return !strcmp(operation, "to");
}

bool autopsy_is_sorting(const char *operation)
{
	return !strcmp(operation, "sort") || !strcmp(operation, "argsort");
}

bool autopsy_is_joining(const char *operation)
{
	static const char *const names[] = { "cat", "stack", "concat", "concatenate", "vstack", "hstack", "dstack" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(operation, names[i]))
			return true;
	return false;
}

bool autopsy_have_passes_made_graphs(const struct autopsy *a)
{
	uint32_t nr = 0, step = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!b->life.in_graph_pass || b->life.birth.ordinal >= a->step_ordinal || (nr && b->step == step))
			continue;
		step = b->step;
		nr++;
	}
	return nr > 1;
}
