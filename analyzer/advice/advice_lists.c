/* SPDX-License-Identifier: MIT */
/* Trying an advice on each list of layers. */
#include "analyzer/advice/advice_lists.h"

#include "analyzer/advice/advice_thresholds.h"

static unsigned nr_that_ran(const struct layerspans *l)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < l->nr_layers; i++)
		nr += l->span[i].first != TFMT_NO_ORDINAL;
	return nr;
}

bool advice_best_list(const struct jobpart *j, struct advice *best, uint64_t bytes,
		      bool (*advise)(const struct layerspans *l, struct advice *a))
{
	const struct modulepaths *paths = j->device->process->modulepaths;
	struct layerlist list[LAYERLISTS_MAX];
	size_t nr = paths ? layerlists_find(list, j, paths) : 0;

	best->after_bytes = best->peak_bytes;
	for (size_t i = 0; i < nr; i++) {
		struct advice a = *best;
		struct layerspans l;

		if (list[i].nr_layers < LAYERS_MIN || list[i].bytes < bytes)
			continue;
		a.has_site = false;
		layerspans_of_list(&l, j, &list[i]);
		if (layerspans_are_in_order(&l) && nr_that_ran(&l) >= LAYERS_MIN && advise(&l, &a) &&
		    a.after_bytes < best->after_bytes)
			*best = a;
		layerspans_release(&l);
	}
	return best->after_bytes < best->peak_bytes;
}
