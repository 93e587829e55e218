/* SPDX-License-Identifier: MIT */
/*
 * Advice to checkpoint layers: their activations are dropped in forward and computed again in backward.
 *
 * Of the layers of a list (layerlist.h): what a layer has made by the end of its forward goes then, but for its
 * *output*, which is the next one's input; it is there again from the layer's backward on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/advice/advice_lists.h"
#include "analyzer/base/heap.h"

#define TITLE_NAME_MAX 16 /* characters of a list's name */

struct layer {
	uint64_t most;	      /* bytes of forward live at once, without the output */
	uint64_t kept, stays; /* bytes that wait for backward; of the output */
};

struct layers {
	const struct jobpart *j;
	const struct layerspans *spans;
	struct layer *layer;
	bool is_called_by_torch; /* by an nn.Sequential or nn.TransformerEncoder: no line tells which layers */
	bool is_of_package;	 /* by any installed package, PyTorch too: there is no line to wrap */
};

/* What a layer's forward has live at most, when it is computed again: without what the output takes. */
static void find_most(struct layers *l)
{
	const struct jobpart *j = l->j;

	for (uint32_t k = 0; k < l->spans->list.nr_layers; k++) {
		const struct layerspan *span = &l->spans->span[k];
		struct blockreplay r = { .from = jobpart_time(span->first), .to = jobpart_time(span->end) };

		for (size_t i = 0; i < j->blocks.nr_blocks && span->first != TFMT_NO_ORDINAL; i++)
			if (layerspans_layer(l->spans, i) == (int32_t)k && jobpart_is_born(j, i, PHASE_FORWARD) &&
			    i != span->output)
				jobpart_keep(&r, j, i);
		l->layer[k].most = blockreplay_peak(&r);
		blockreplay_release(&r);
	}
}

static void add_kept(const struct layers *l, struct blockreplay *r, int32_t k, size_t i)
{
	const struct jobpart *j = l->j;
	const struct life *life = &j->blocks.block[i].life;
	const struct layerspan *span = &l->spans->span[k];
	uint64_t from = jobpart_time(life->birth.ordinal), to = jobpart_time(life->death.ordinal),
		 end = jobpart_time(jobpart_is_cast(j, i) ? j->backward : span->end), back = jobpart_time(span->back);

	l->layer[k].kept += life->size;
	blockreplay_add(r, from, end < to ? end : to, life->size);
	if (span->back != TFMT_NO_ORDINAL && to > back)
		blockreplay_add(r, back - 1, to, life->size);
}

/* The output stays as the next one's input until that is through: no shorter than it did. */
static void add_output(const struct layers *l, struct blockreplay *r, int32_t k, size_t i)
{
	const struct life *life = &l->j->blocks.block[i].life;
	uint64_t to = life->death.ordinal, back = l->spans->span[k].back;
	bool is_last = (uint32_t)k + 1 == l->spans->list.nr_layers;

	if (!is_last && back != TFMT_NO_ORDINAL && back > to)
		to = back;
	l->layer[k].stays += life->size;
	blockreplay_add(r, jobpart_time(life->birth.ordinal), jobpart_time(to), life->size);
}

static uint64_t peak_checkpointed(const struct layers *l)
{
	const struct jobpart *j = l->j;
	struct blockreplay r = jobpart_replay(j);

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		int32_t k = layerspans_layer(l->spans, i);

		if (k >= 0 && i == l->spans->span[k].output)
			add_output(l, &r, k, i);
		else if (k >= 0 && jobpart_is_kept(j, i))
			add_kept(l, &r, k, i);
		else
			jobpart_keep(&r, j, i);
	}
	for (uint32_t k = 0; k < l->spans->list.nr_layers; k++) {
		uint64_t back = l->spans->span[k].back;

		if (back != TFMT_NO_ORDINAL)
			blockreplay_add(&r, jobpart_time(back) - 2, jobpart_time(back) - 1, l->layer[k].most);
	}
	return jobpart_peak(j, &r);
}

/* ---- the advice ------------------------------------------------------------------------------ */

static void find_site(struct layers *l, struct advice *a)
{
	uint32_t call = layerspans_call(l->spans);

	if (!call)
		return;
	advice_at_stack(l->j, a, call);
	l->is_called_by_torch = advice_ends_in(l->j, call, "/torch/nn/modules/");
	l->is_of_package = l->is_called_by_torch || advice_is_package(l->j, a, call);
}

static uint64_t forward_bytes(const struct jobpart *j)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (jobpart_is_born(j, i, PHASE_FORWARD))
			bytes += j->blocks.block[i].life.size;
	return bytes;
}

/* What the list is called, or ""; with its owner where PyTorch calls the layers: the line may call other lists as well. */
static const char *list_text(const struct layers *l, char *buf, size_t size)
{
	const struct layerlist *list = &l->spans->list;
	const char *name = list->name, *owner = "";

	if (l->is_called_by_torch && list->parent)
		owner = l->spans->paths->path[list->parent - 1].name;
	snprintf(buf, size, "%s%s%s", owner, *owner && *name ? "." : "", name);
	return buf;
}

/* How, at the line that calls them, or from outside where it is PyTorch that does. */
static struct said action_of(const struct layers *l, const struct advice *a, const char *list)
{
	char name[LAYERLIST_NAME_MAX];
	struct fact site = fact_if(a->has_site, fact_site("site", &a->site));

	if (a->has_site && strstr(a->site.file, "/transformers/"))
		return SAID(layers_of_transformers_action, site);
	if (l->is_of_package)
		return SAID(layers_of_package_action, fact_name("layers", layerlist_name(name, list)), site);
	return SAID(layers_checkpoint_action, site);
}

static void tell(struct layers *l, struct advice *a)
{
	uint64_t kept = 0, stays = 0, passed = 0;
	uint32_t first = UINT32_MAX, last = 0;
	char owner[128], text[64], name[LAYERLIST_NAME_MAX];
	const char *list;
	struct fact site;

	for (uint32_t i = 0; i < l->spans->list.nr_layers; i++) {
		if (l->spans->span[i].first == TFMT_NO_ORDINAL)
			continue;
		first = i < first ? i : first;
		last = i;
		kept += l->layer[i].kept;
		stays += l->layer[i].stays;
		passed += l->spans->span[i].passed;
	}
	modulepaths_text(l->spans->paths, l->spans->list.parent, 0, owner, sizeof(owner));
	find_site(l, a);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	list = list_text(l, text, sizeof(text));
	layerlist_name(name, list)[TITLE_NAME_MAX] = 0;
	a->title = SAID(layers_checkpoint, fact_name("layers", name), fact_count("first", first),
			fact_count("last", last), site);
	a->action = action_of(l, a, list);
	a->evidence = SAID(layers_keep, fact_name("layers", layerlist_name(name, l->spans->list.name)),
			   fact_count("first", first), fact_count("last", last), fact_if(*owner, fact_name("owner", owner)),
			   fact_bytes("bytes", kept + stays), fact_bytes("rest", stays));
	a->cost = SAID(layers_run_again, fact_share("share", (double)passed, (double)forward_bytes(l->j)));
}

static bool advise(const struct layerspans *spans, struct advice *a)
{
	struct layers l = { .j = spans->j,
			    .spans = spans,
			    .layer = heap_alloc(spans->list.nr_layers, sizeof(*l.layer)) };

	find_most(&l);
	a->after_bytes = peak_checkpointed(&l);
	tell(&l, a);
	free(l.layer);
	return true;
}

bool advice_checkpointing(const struct jobpart *j, struct advice *a)
{
	return advice_best_list(j, a, (uint64_t)(ADVICE_LEAST * (double)j->peak), advise);
}
