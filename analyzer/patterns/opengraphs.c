/* SPDX-License-Identifier: MIT */
/* Graphs that no backward pass has gone through. */
#include "analyzer/patterns/opengraphs.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/patterns/patterns_thresholds.h"

bool opengraphs_is_open(const struct moment *at, size_t i)
{
	const struct life *life = &at->live[i].life;

	return life->birth.nr_begun == at->nr_begun && at->nr_begun == life->birth.nr_ended;
}

/* How many live blocks are of each group: an array by group, to be freed. */
static uint32_t *count_groups(const struct moment *at, bool graphs)
{
	uint32_t *count = heap_alloc(books_nr_groups(at->device->process->books) + 1, sizeof(*count));

	for (size_t i = 0; i < at->nr_blocks; i++)
		if (opengraphs_is_open(at, i) && at->block[i].has_graph == graphs)
			count[at->live[i].life.group]++;
	return count;
}

/* Made outside of the model, after the latest backward pass. */
static bool is_open_input(const struct moment *at, size_t i)
{
	const struct category_block *b = &at->live[i];

	return opengraphs_is_open(at, i) && b->category != CATEGORY_PARAMETER && !at->block[i].has_graph &&
	       b->life.birth.phase != PHASE_FORWARD && b->life.birth.phase != PHASE_BACKWARD &&
	       b->life.birth.phase != PHASE_OPTIMIZER;
}

/*
 * A batch is made outside of forward and is there as often as forward was called; *last is when the last was made, *bytes
 * are all that are there as often.
 */
static uint32_t most_inputs(const struct moment *at, uint64_t *last, uint64_t *bytes)
{
	uint32_t *count = count_groups(at, false), most = 0, group = 0;

	*last = *bytes = 0;
	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct category_block *b = &at->live[i];

		if (is_open_input(at, i) && count[b->life.group] > most) {
			most = count[b->life.group];
			group = b->life.group;
		}
		if (most && b->life.group == group && opengraphs_is_open(at, i))
			*last = b->life.birth.ordinal;
	}
	for (size_t i = 0; i < at->nr_blocks; i++)
		if (is_open_input(at, i) && count[at->live[i].life.group] + 1 >= most)
			*bytes += at->live[i].life.size;
	free(count);
	return most;
}

void opengraphs_find(struct opengraphs *g, const struct moment *at)
{
	uint32_t *count = count_groups(at, true);
	uint64_t last_input, input_bytes, later_bytes = 0;

	*g = (struct opengraphs){ .nr_calls = most_inputs(at, &last_input, &input_bytes) };
	g->input_bytes = input_bytes;
	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct life *life = &at->live[i].life;
		const struct lives_fates *fates = moment_fates(at, i);

		if (!opengraphs_is_open(at, i) || !at->block[i].has_graph)
			continue;
		if (!g->nr_blocks++ || life->size > at->live[g->largest].life.size)
			g->largest = i;
		g->bytes += life->size;
		g->is_consumed |= fates && fates->nr[FATE_INTO_PASS];
		if (count[life->group] + 1 >= g->nr_calls) {
			g->nr_repeated++;
			g->repeated_bytes += life->size;
			later_bytes += life->birth.ordinal > last_input ? life->size : 0;
		}
	}
	free(count);
	/* They were samples of one batch: the one call that took them all has made most of it. */
	if (ONE_BATCH_PART * later_bytes > g->repeated_bytes)
		g->nr_calls = 1;
}
