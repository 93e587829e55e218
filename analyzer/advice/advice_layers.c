/* SPDX-License-Identifier: MIT */
/* Advice to checkpoint the layers of a list (layerlist.h): what that makes of their blocks says changes/layersteps.h. */
#include <stdio.h>
#include <string.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/advice/advice_lists.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/changes/layersteps.h"

#define TITLE_NAME_MAX 16 /* characters of a list's name */

struct layers {
	const struct jobpart *j;
	const struct layerspans *spans;
	uint64_t kept, stays; /* bytes that wait for backward, beside outputs; of the outputs */
	bool is_called_by_torch; /* by an nn.Sequential or nn.TransformerEncoder: no line tells which layers */
	bool is_of_package;	 /* by any installed package, PyTorch too: there is no line to wrap */
};

static void find_kept(struct layers *l)
{
	for (size_t i = 0; i < l->j->blocks.nr_blocks; i++) {
		int32_t k = layerspans_layer(l->spans, i);

		if (k >= 0 && i == l->spans->span[k].output)
			l->stays += l->j->blocks.block[i].life.size;
		else if (k >= 0 && jobpart_is_kept(l->j, i))
			l->kept += l->j->blocks.block[i].life.size;
	}
}

static uint64_t peak_checkpointed(const struct layers *l)
{
	struct edits edits = { 0 };

	layersteps_add(&edits, l->spans);
	return editpeak_once(l->j, &edits);
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
	uint64_t passed = 0;
	uint32_t first = UINT32_MAX, last = 0;
	char owner[128], text[64], name[LAYERLIST_NAME_MAX];
	const char *list;
	struct fact site;

	for (uint32_t i = 0; i < l->spans->list.nr_layers; i++) {
		if (l->spans->span[i].first == TFMT_NO_ORDINAL)
			continue;
		first = i < first ? i : first;
		last = i;
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
			   fact_bytes("bytes", l->kept + l->stays), fact_bytes("rest", l->stays));
	a->cost = SAID(layers_run_again, fact_share("share", (double)passed, (double)forward_bytes(l->j)));
}

static bool advise(const struct layerspans *spans, struct advice *a)
{
	struct layers l = { .j = spans->j, .spans = spans };

	find_kept(&l);
	a->after_bytes = peak_checkpointed(&l);
	tell(&l, a);
	return true;
}

bool advice_checkpointing(const struct jobpart *j, struct advice *a)
{
	return advice_best_list(j, a, (uint64_t)(ADVICE_LEAST * (double)j->peak), advise);
}
