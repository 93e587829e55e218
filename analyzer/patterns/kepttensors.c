/* SPDX-License-Identifier: MIT */
/* What steps before have left of each line. */
#include "analyzer/patterns/kepttensors.h"

#include "analyzer/base/heap.h"
#include "analyzer/patterns/patterns_thresholds.h"

bool kepttensors_is_of_step(const struct moment *at, size_t i)
{
	const struct category_block *b = &at->live[i];

	return b->step >= 2 && b->step < at->step && b->category != CATEGORY_OPTIMIZER_STATE;
}

struct kepttensors *kepttensors_find(const struct moment *at)
{
	struct kepttensors *kept = heap_alloc(at->nr_places + 1, sizeof(*kept));

	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct category_block *b = &at->live[i];
		struct kepttensors *k = &kept[at->block[i].place];
		const struct lives_fates *fates = moment_fates(at, i);

		if (!kepttensors_is_of_step(at, i))
			continue;
		if (!k->nr_steps)
			k->first = k->last = b->step;
		if (b->step - k->last > k->longest)
			k->longest = b->step - k->last;
		k->nr_steps += !k->nr_steps || b->step != k->last;
		k->last = b->step;
		k->bytes += b->life.size;
		k->blocks++;
		if (moment_is_in_graph(at, i)) {
			k->graph_bytes += b->life.size;
			k->graph_blocks++;
		}
		if (fates)
			k->freed += (double)fates->nr[FATE_KEPT] * (double)b->life.size;
	}
	return kept;
}

double kepttensors_interval(const struct kepttensors *k)
{
	return k->nr_steps > 1 ? (double)(k->last - k->first) / (k->nr_steps - 1) : 0;
}

/*
 * A ring lets go of as many as it holds, the first ones first; the scalar that a variable holds until the next step says
 * nothing of the rest, nor do gradients that are freed beside others of their shape that something keeps.
 */
static bool is_let_go(const struct kepttensors *k)
{
	return k->first > KEPT_STEPS_MIN * (1 + kepttensors_interval(k)) && k->freed >= (double)k->nr_steps * (double)k->bytes;
}

bool kepttensors_are_kept_on(const struct moment *at, const struct kepttensors *k)
{
	return k->nr_steps >= KEPT_STEPS_MIN && k->last + KEPT_RECENT_STEPS >= at->step &&
	       KEPT_MOST_STEPS_PART * k->nr_steps >= k->last - k->first && !is_let_go(k);
}

bool kepttensors_are_kept_regularly(const struct moment *at, const struct kepttensors *k)
{
	return k->nr_steps >= KEPT_STEPS_MIN && k->longest <= REGULAR_INTERVALS * kepttensors_interval(k) + 1 &&
	       at->step - k->last <= REGULAR_INTERVALS * kepttensors_interval(k) + KEPT_RECENT_STEPS && !is_let_go(k);
}
