/* SPDX-License-Identifier: MIT */
/*
 * Advice to have each rank keep a part of the parameters, their gradients and their state: FSDP2's fully_shard() on
 * each layer of a list and on the model, ZeRO-3.
 *
 * A *unit* is what is gathered together: the parameters of a layer, and of the rest of the model, the *root*. A
 * layer's are whole while it runs, twice, since what was gathered goes only when the next one's is there; the root's
 * from forward's beginning to the end of backward. In backward the layer to come is gathered already, and a unit's
 * gradients, whole until its end, are copied to be sent.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/advice/advice_lists.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"


struct fsdp {
	const struct jobpart *j;
	const struct layerspans *spans;
	uint64_t ranks;
	uint64_t *unit; /* by layer, bytes of its parameters; after the last one the root's */
	uint64_t *sent; /* by layer, bytes of its gradients */
	uint64_t first; /* ordinal at which forward begins */
	uint64_t end;	/* ordinal of what comes after backward */
	uint64_t buckets; /* bytes of DistributedDataParallel's, which FSDP does without */
};

static uint32_t root_of(const struct fsdp *f)
{
	return f->spans->list.nr_layers;
}

static uint32_t unit_of(const struct fsdp *f, size_t block)
{
	int32_t layer = layerspans_layer(f->spans, block);

	return layer < 0 ? root_of(f) : (uint32_t)layer;
}

static bool is_gradient(const struct jobpart *j, size_t i)
{
	return j->blocks.block[i].category == CATEGORY_GRADIENT;
}

/* A rank's rows of a tensor: the first rank has most. What has no shape is cut evenly. */
static uint64_t shard_bytes(const struct fsdp *f, size_t i)
{
	const struct tfmt_shape *s = &f->j->shape[i];
	uint64_t size = f->j->blocks.block[i].life.size;

	if (!s->bytes || !s->nr_dims || !s->dims[0])
		return torch_rounded((size + f->ranks - 1) / f->ranks);
	return torch_rounded(s->bytes / s->dims[0] * ((s->dims[0] + f->ranks - 1) / f->ranks));
}

/* Of a tensor's values: its block may be larger, where the allocator left no rest of it. */
static uint64_t value_bytes(const struct jobpart *j, size_t i)
{
	return j->shape[i].bytes ? j->shape[i].bytes : j->blocks.block[i].life.size;
}

/* The parameters in the order in which they were made. Returns their bytes. */
static uint64_t parameters_of(const struct jobpart *j, size_t *block, size_t *nr)
{
	uint64_t bytes = 0;

	*nr = 0;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		if (j->blocks.block[i].category != CATEGORY_PARAMETER || j->blocks.block[i].life.birth.ordinal >= j->to)
			continue;
		block[(*nr)++] = i;
		bytes += value_bytes(j, i);
	}
	return bytes;
}

/*
 * The longest run of parameters that repeats once for each layer: from *first on `period` times their number. Returns
 * the period; 0: there is none.
 */
static size_t find_run(const struct fsdp *f, const size_t *block, size_t nr, size_t *first)
{
	const uint64_t *key = f->j->key;
	size_t layers = root_of(f), best = 0;

	for (size_t period = 1; period <= PERIOD_MAX && period * layers <= nr; period++) {
		size_t run = 0;

		for (size_t i = period; i <= nr; i++) {
			if (i < nr && key[block[i]] == key[block[i - period]]) {
				run++;
				continue;
			}
			if ((run + period) / period == layers && period > best) {
				best = period;
				*first = i - period - run;
			}
			run = 0;
		}
	}
	return best;
}

/*
 * What a layer has where frozen parameters have no gradients to tell: of the runs that repeat once for each layer
 * (weights, and what was added to them later) one part. The rest is the root's. false: there is no such run.
 */
static bool find_repeats(struct fsdp *f, size_t *block, size_t nr, uint64_t bytes)
{
	uint32_t root = root_of(f);
	size_t period, first = 0;
	uint64_t layer = 0;

	while ((period = find_run(f, block, nr, &first))) {
		size_t end = first + period * root;

		for (size_t i = first; i < first + period; i++)
			layer += value_bytes(f->j, block[i]);
		memmove(block + first, block + end, (nr - end) * sizeof(*block));
		nr -= period * root;
	}
	for (uint32_t i = 0; i < root; i++)
		f->unit[i] = layer;
	f->unit[root] = bytes > layer * root ? bytes - layer * root : 0;
	return layer != 0;
}

/* By the gradients, which each layer's backward makes; or by what repeats. false: nothing tells. */
static bool find_units(struct fsdp *f)
{
	const struct jobpart *j = f->j;
	size_t *block = heap_alloc(j->blocks.nr_blocks, sizeof(*block)), nr = 0;
	uint64_t gradients = 0, parameters = parameters_of(j, block, &nr);
	bool found = false;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		if (!is_gradient(j, i) || !jobpart_is_born(j, i, PHASE_BACKWARD))
			continue;
		f->sent[unit_of(f, i)] += value_bytes(j, i);
		gradients += value_bytes(j, i);
	}
	if (gradients && (double)gradients > GRADIENTS_ALL * (double)parameters) {
		memcpy(f->unit, f->sent, (root_of(f) + 1) * sizeof(*f->unit));
		found = true;
	} else if (gradients && (!j->asked || j->asked_phase == PHASE_OPTIMIZER)) {
		found = find_repeats(f, block, nr, parameters);
	}
	free(block);
	return found;
}

static void find_ends(struct fsdp *f)
{
	const struct jobpart *j = f->j;

	f->first = j->backward;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (jobpart_is_born(j, i, PHASE_FORWARD) && life->birth.ordinal < f->first)
			f->first = life->birth.ordinal;
		if (jobpart_is_born(j, i, PHASE_BACKWARD) && life->birth.ordinal >= f->end)
			f->end = life->birth.ordinal + 1;
		if (life->death.phase == PHASE_BACKWARD && life->death.ordinal <= j->to &&
		    life->death.ordinal >= f->end)
			f->end = life->death.ordinal + 1;
	}
}

/* Where a unit's backward ends: where that of the layer before it begins. */
static uint64_t end_of(const struct fsdp *f, uint32_t unit)
{
	uint64_t back = unit && unit < root_of(f) ? f->spans->span[unit - 1].back : TFMT_NO_ORDINAL;

	return back < f->end ? back : f->end;
}

static void add_forward(const struct fsdp *f, struct edits *e)
{
	uint32_t root = root_of(f), before = root;
	uint64_t since = f->first;

	edits_more(e, f->first, f->end, f->unit[root]);
	for (uint32_t i = 0; i < root; i++) {
		const struct layerspan *span = &f->spans->span[i];

		if (span->first == TFMT_NO_ORDINAL)
			continue;
		edits_more(e, since, span->first, f->unit[before]);
		edits_more(e, span->first, span->end, f->unit[i]);
		since = span->first;
		before = i;
	}
	edits_more(e, since, f->spans->span[root - 1].end, f->unit[before]);
}

/* The copy that is sent is there with the gradients, for a moment, and until the next unit's: these steps come first. */
static void add_sent(const struct fsdp *f, struct edits *e)
{
	uint32_t root = root_of(f);

	for (uint32_t i = root; i-- > 0;)
		if (f->spans->span[i].back != TFMT_NO_ORDINAL)
			edits_more(e, end_of(f, i), end_of(f, i ? i - 1 : root), f->sent[i]);
	edits_moment(e, f->end, f->sent[root]);
}

static void add_backward(const struct fsdp *f, struct edits *e)
{
	uint64_t since = f->j->backward;

	for (uint32_t i = root_of(f); i-- > 0;) {
		uint64_t back = f->spans->span[i].back, end = end_of(f, i);

		if (back == TFMT_NO_ORDINAL)
			continue;
		edits_more(e, since, back, f->unit[i]);
		edits_more(e, back, end, f->unit[i]);
		since = back;
	}
}

/* Whole until its unit's backward ends, then a part. */
static void cut_gradient(const struct fsdp *f, struct edits *e, size_t i)
{
	const struct life *life = &f->j->blocks.block[i].life;
	uint64_t cut = end_of(f, unit_of(f, i));

	if (!jobpart_is_born(f->j, i, PHASE_BACKWARD)) {
		edits_resize(e, life->birth.ordinal, shard_bytes(f, i));
	} else if (cut < life->death.ordinal) {
		edits_step(e, cut, EDIT_FREE, life->birth.ordinal);
		edits_more(e, cut, life->death.ordinal, shard_bytes(f, i));
	}
}

static bool is_bucket(const struct jobpart *j, size_t i)
{
	static const char *const ddp[] = { "/torch/nn/parallel/distributed.py", NULL };
	const struct category_block *b = &j->blocks.block[i];

	return b->category == CATEGORY_COMMUNICATION && advice_runs_in(j, b->life.birth.stack, ddp);
}

static uint64_t peak_sharded(struct fsdp *f)
{
	const struct jobpart *j = f->j;
	struct edits e = { 0 };

	add_sent(f, &e);
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (is_gradient(j, i)) {
			cut_gradient(f, &e, i);
		} else if (is_bucket(j, i)) {
			f->buckets += life->death.ordinal > j->from ? life->size : 0;
			edits_resize(&e, life->birth.ordinal, 0);
		} else if (advice_is_state(j, i) || advice_is_of_step(j, i) ||
			   j->blocks.block[i].category == CATEGORY_PARAMETER) {
			edits_resize(&e, life->birth.ordinal, shard_bytes(f, i));
		}
	}
	add_forward(f, &e);
	add_backward(f, &e);
	return editpeak_once(j, &e);
}

/* ---- the advice ------------------------------------------------------------------------------ */

static void tell(const struct fsdp *f, struct advice *a)
{
	uint64_t layers = 0, most = 0, gradients = f->sent[root_of(f)], root = f->unit[root_of(f)];
	uint32_t call = layerspans_call(f->spans);
	char list[LAYERLIST_NAME_MAX];
	double others = (double)(f->ranks - 1) / (double)f->ranks;
	struct fact site, ranks = fact_count("ranks", f->ranks);

	for (uint32_t i = 0; i < root_of(f); i++) {
		layers += f->unit[i];
		gradients += f->sent[i];
		most = f->unit[i] > most ? f->unit[i] : most;
	}
	if (call)
		advice_at_stack(f->j, a, call);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(fsdp_shard, ranks, site);
	a->action = SAID(fsdp_shard_action, ranks, fact_name("layers", layerlist_name(list, f->spans->list.name)), site,
			 fact_flag("has_ddp", f->buckets));
	a->evidence = SAID(fsdp_keeps, fact_bytes("parameters", layers + root), ranks, fact_bytes("layer", most),
			   fact_bytes("rest", root), fact_if(f->buckets, fact_bytes("buckets", f->buckets)));
	a->cost = SAID(fsdp_sends, fact_bytes("received", (uint64_t)(others * (double)(2 * layers + root))),
		       fact_bytes("sent", (uint64_t)(others * (double)gradients)));
}

static bool advise(const struct layerspans *spans, struct advice *a)
{
	struct fsdp f = { .j = spans->j,
			  .spans = spans,
			  .ranks = advice_ranks(spans->j),
			  .unit = heap_alloc(spans->list.nr_layers + 1, sizeof(*f.unit)),
			  .sent = heap_alloc(spans->list.nr_layers + 1, sizeof(*f.sent)) };
	bool found = find_units(&f);

	if (found) {
		find_ends(&f);
		a->after_bytes = peak_sharded(&f);
		tell(&f, a);
	}
	free(f.unit);
	free(f.sent);
	return found;
}

bool advice_sharded_parameters(const struct jobpart *j, struct advice *a)
{
	if (j->backward == TFMT_NO_ORDINAL || advice_is_sharded(j))
		return false;
	return advice_best_list(j, a, 0, advise);
}
