/* SPDX-License-Identifier: MIT */
/* Advice to have each rank keep a part of the optimizer's state. */
#include <stdlib.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/recording/sorted.h"


/* How many parameters, or gradients of the window, have one of these keys. */
static size_t nr_with_keys(const struct jobpart *j, enum category category, const uint64_t *key, size_t nr_keys)
{
	size_t nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->blocks.block[i].category == category && j->key[i] &&
		    (category == CATEGORY_PARAMETER || jobpart_is_born(j, i, PHASE_BACKWARD)))
			nr += bsearch(&j->key[i], key, nr_keys, sizeof(*key), sorted_compare) != NULL;
	return nr;
}

/*
 * How many tensors of state the optimizer keeps of a parameter: two for Adam. Copies of the model, as from a file, are
 * parameters as well, but have no gradients.
 */
static size_t states_of_parameter(const struct jobpart *j, uint64_t *key)
{
	size_t nr_keys = 0, nr_state = 0, nr_parameters, nr_gradients;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		if (!advice_is_state(j, i) || !j->key[i])
			continue;
		key[nr_keys++] = j->key[i];
		nr_state += jobpart_fits_parameter(j, i);
	}
	if (!nr_keys)
		return 1;
	qsort(key, nr_keys, sizeof(*key), sorted_compare);
	nr_parameters = nr_with_keys(j, CATEGORY_PARAMETER, key, nr_keys);
	nr_gradients = j->asked ? 0 : nr_with_keys(j, CATEGORY_GRADIENT, key, nr_keys);
	if (nr_gradients && nr_gradients < nr_parameters)
		nr_parameters = nr_gradients;
	return nr_parameters && nr_state > nr_parameters ? nr_state / nr_parameters : 1;
}

/*
 * The values of each parameter that state is kept of, ascending: of each of its tensors of state, the same. The
 * parameters' own blocks do not tell, where several share one (LSTM). Returns how many parameters.
 */
static size_t sizes_of_trained(const struct jobpart *j, uint64_t *size)
{
	size_t each = states_of_parameter(j, size), nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (advice_is_state(j, i) && j->key[i])
			size[nr++] = jobpart_elements(&j->shape[i]);
	qsort(size, nr, sizeof(*size), sorted_compare);
	for (size_t i = 0; i < nr / each; i++)
		size[i] = size[i * each];
	return nr / each;
}

/* Give each parameter, the largest first, to the rank that has least. Returns the share of the one that has most. */
static double deal_out(const uint64_t *size, size_t nr, uint64_t ranks)
{
	/* Further ranks would have nothing to keep, however many a recording claims. */
	uint64_t busy = ranks < nr ? ranks : nr, most = 0, all = 0;
	uint64_t *load = heap_alloc(busy, sizeof(*load));

	for (size_t i = nr; i-- > 0;) {
		uint64_t least = 0;

		for (uint64_t rank = 1; rank < busy; rank++)
			least = load[rank] < load[least] ? rank : least;
		load[least] += size[i];
		all += size[i];
		most = load[least] > most ? load[least] : most;
	}
	free(load);
	return all ? (double)most / (double)all : 1 / (double)ranks;
}

/*
 * What the rank that has most keeps of all state. ZeroRedundancyOptimizer cuts no tensor: an embedding that is larger
 * than a rank's even share makes its rank the fullest.
 */
static double largest_share(const struct jobpart *j, uint64_t ranks)
{
	uint64_t *size = heap_alloc(j->blocks.nr_blocks, sizeof(*size));
	double share = deal_out(size, sizes_of_trained(j, size), ranks);

	free(size);
	return share;
}

bool advice_is_sharded(const struct jobpart *j)
{
	static const char *const sharders[] = { "/torch/distributed/fsdp/",
						"/zero_redundancy_optimizer.py",
						"/deepspeed/",
						NULL };
	size_t parameter = SIZE_MAX, state = SIZE_MAX;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->blocks.block[i].category == CATEGORY_PARAMETER &&
		    (parameter == SIZE_MAX || j->blocks.block[i].life.size > j->blocks.block[parameter].life.size))
			parameter = i;
	advice_state_bytes(j, &state);
	return (state != SIZE_MAX && advice_runs_in(j, j->blocks.block[state].life.birth.stack, sharders)) ||
	       (parameter != SIZE_MAX && advice_runs_in(j, j->blocks.block[parameter].life.birth.stack, sharders));
}

uint64_t advice_ranks(const struct jobpart *j)
{
	int64_t world = j->device->process->world_size;

	return world > 1 ? (uint64_t)world : RANKS_USUAL;
}

bool advice_sharding(const struct jobpart *j, struct advice *a)
{
	uint64_t ranks = advice_ranks(j);
	size_t largest = 0;
	uint64_t bytes = advice_state_bytes(j, &largest);
	struct edits e = { 0 };
	struct fact site;
	double share;

	if (!bytes || advice_is_sharded(j))
		return false;
	share = largest_share(j, ranks);
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (advice_is_state(j, i) || advice_is_of_step(j, i))
			edits_resize(&e, life->birth.ordinal, (uint64_t)(share * (double)life->size));
	}
	a->after_bytes = editpeak_once(j, &e);
	advice_at_program(j, a, j->blocks.block[largest].life.birth.stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(state_shard, fact_count("ranks", ranks), site);
	a->action = SAID(state_shard_action, fact_count("ranks", ranks), site);
	a->evidence = SAID(state_of_fullest_rank, fact_bytes("bytes", bytes), fact_count("ranks", ranks),
			   fact_bytes("kept", (uint64_t)(share * (double)bytes)));
	a->cost = SAID(state_shard_cost, fact_bytes("moved", advice_gradient_bytes(j)));
	return true;
}
