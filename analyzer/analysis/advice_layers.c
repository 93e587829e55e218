/* SPDX-License-Identifier: MIT */
/*
 * Advice to checkpoint layers: their activations are dropped in forward and computed again in backward.
 *
 * Of the layers of a list (layerlist.h): what a layer has made by the end of its forward goes then, but for its *output*,
 * which is the next one's input; it is there again from the layer's backward on.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis/layerlist.h"
#include "analyzer/element.h"
#include "analyzer/ui/human.h"

#define LAYERS_MIN 3  /* of two, one is always there */
#define OUTPUT_LEAST 256 /* an output is no smaller than that part of the largest result */

struct layer {
	uint64_t first, last; /* births in forward, ordinals; first TFMT_NO_ORDINAL: none */
	uint64_t end;	      /* of its forward: the next birth of another */
	uint64_t back;	      /* where its backward begins; TFMT_NO_ORDINAL: it is not seen */
	size_t output;	      /* block; SIZE_MAX: none */
	uint64_t largest;     /* bytes of its results */
	uint64_t made, most;  /* bytes of forward live now, and at most, without the output */
	uint64_t kept, stays; /* bytes that wait for backward; of the output */
	uint64_t passed;      /* bytes allocated in forward */
};

struct layers {
	const struct advice_job *j;
	const struct modulepaths *paths;
	struct layerlist list;
	struct layer *layer;
	int32_t *of; /* by path: its layer, -1 = in none */
	bool is_called_by_torch; /* by an nn.Sequential or nn.TransformerEncoder: there is no line to wrap */
};

/* ---- the layers of one list ------------------------------------------------------------------ */

static struct layer *layer_of(const struct layers *l, size_t block)
{
	uint32_t path = l->j->blocks.block[block].module;
	int32_t index = path <= l->paths->nr_paths ? l->of[path] : -1;

	return index < 0 ? NULL : &l->layer[index];
}

static bool is_float(const struct tfmt_shape *s)
{
	const char *name = element_name(s->element_type);

	return s->bytes && (strstr(name, "float") || strstr(name, "complex"));
}

/* Is it a result of the layer's forward, there when the next one begins? */
static bool is_result(const struct layers *l, size_t i)
{
	const struct layer *layer = layer_of(l, i);

	return layer && advice_is_born(l->j, i, PHASE_FORWARD) && is_float(&l->j->shape[i]) &&
	       l->j->blocks.block[i].life.death.ordinal > layer->end;
}

/*
 * The layer's output is the last that it makes and the next one finds: what a norm keeps of its input, a few values for each
 * sample or channel, is made behind its result.
 */
static void find_outputs(struct layers *l)
{
	const struct advice_job *j = l->j;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_result(l, i) && j->blocks.block[i].life.size > layer_of(l, i)->largest)
			layer_of(l, i)->largest = j->blocks.block[i].life.size;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_result(l, i) && j->blocks.block[i].life.size >= layer_of(l, i)->largest / OUTPUT_LEAST)
			layer_of(l, i)->output = i;
}

static void find_forward(struct layers *l)
{
	const struct advice_job *j = l->j;
	struct layer *before = NULL;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		struct layer *layer = layer_of(l, i);

		if (life->birth.ordinal < j->from || life->birth.ordinal > j->to || life->birth.phase == PHASE_BACKWARD)
			continue;
		if (before && before != layer)
			before->end = life->birth.ordinal;
		before = NULL;
		if (!layer || life->birth.phase != PHASE_FORWARD)
			continue;
		if (layer->first == TFMT_NO_ORDINAL)
			layer->first = life->birth.ordinal;
		layer->last = life->birth.ordinal;
		layer->end = life->birth.ordinal + 1;
		layer->passed += life->size;
		before = layer;
	}
}

static void earlier(uint64_t *time, uint64_t ordinal)
{
	if (ordinal < *time)
		*time = ordinal;
}

/* Its backward begins where a node of it first allocates, or first gives back what it has saved. */
static void find_backward(struct layers *l)
{
	const struct advice_job *j = l->j;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		struct layer *layer = layer_of(l, i);

		if (!layer || i == layer->output)
			continue;
		if (advice_is_born(j, i, PHASE_BACKWARD))
			earlier(&layer->back, life->birth.ordinal);
		if (advice_is_kept(j, i) && life->death.phase == PHASE_BACKWARD)
			earlier(&layer->back, life->death.ordinal);
	}
}

/* Each layer is called once in the window, in their order. */
static bool are_in_order(const struct layers *l)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < l->list.nr_layers; i++) {
		const struct layer *layer = &l->layer[i];

		if (layer->first == TFMT_NO_ORDINAL)
			continue;
		if (layer->first < last)
			return false;
		last = layer->last;
	}
	return true;
}

/* What a layer's forward has live at most, when it is computed again: without what the output takes. */
static void find_most(struct layers *l)
{
	const struct advice_job *j = l->j;

	for (uint32_t k = 0; k < l->list.nr_layers; k++) {
		struct layer *layer = &l->layer[k];
		struct replay r = { .from = advice_time(layer->first), .to = advice_time(layer->end) };

		for (size_t i = 0; i < j->blocks.nr_blocks && layer->first != TFMT_NO_ORDINAL; i++)
			if (layer_of(l, i) == layer && advice_is_born(j, i, PHASE_FORWARD) && i != layer->output)
				advice_keep(&r, j, i);
		layer->most = replay_peak(&r);
		replay_release(&r);
	}
}

static void add_kept(const struct layers *l, struct replay *r, struct layer *layer, size_t i)
{
	const struct advice_job *j = l->j;
	const struct life *life = &j->blocks.block[i].life;
	uint64_t from = advice_time(life->birth.ordinal), to = advice_time(life->death.ordinal),
		 end = advice_time(advice_is_cast(j, i) ? j->backward : layer->end), back = advice_time(layer->back);

	layer->kept += life->size;
	replay_add(r, from, end < to ? end : to, life->size);
	if (layer->back != TFMT_NO_ORDINAL && to > back)
		replay_add(r, back - 1, to, life->size);
}

/* The output stays as the next one's input until that is through: no shorter than it did. */
static void add_output(const struct layers *l, struct replay *r, struct layer *layer, size_t i)
{
	const struct life *life = &l->j->blocks.block[i].life;
	uint64_t to = life->death.ordinal;
	bool is_last = layer == &l->layer[l->list.nr_layers - 1];

	if (!is_last && layer->back != TFMT_NO_ORDINAL && layer->back > to)
		to = layer->back;
	layer->stays += life->size;
	replay_add(r, advice_time(life->birth.ordinal), advice_time(to), life->size);
}

static uint64_t peak_checkpointed(const struct layers *l)
{
	const struct advice_job *j = l->j;
	struct replay r = advice_replay(j);

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		struct layer *layer = layer_of(l, i);

		if (layer && i == layer->output)
			add_output(l, &r, layer, i);
		else if (layer && advice_is_kept(j, i))
			add_kept(l, &r, layer, i);
		else
			advice_keep(&r, j, i);
	}
	for (uint32_t k = 0; k < l->list.nr_layers; k++) {
		const struct layer *layer = &l->layer[k];

		if (layer->back != TFMT_NO_ORDINAL)
			replay_add(&r, advice_time(layer->back) - 2, advice_time(layer->back) - 1, layer->most);
	}
	return advice_peak(j, &r);
}

/* ---- the advice ------------------------------------------------------------------------------ */

/* The line that calls the layers, by the stack of one of the blocks. */
static void find_site(struct layers *l, struct advice *a)
{
	struct modulepaths *paths = l->j->device->process->books.modulepaths;

	for (size_t i = 0; i < l->j->blocks.nr_blocks && !a->has_site; i++) {
		uint32_t call;

		if (!layer_of(l, i) || !advice_is_kept(l->j, i))
			continue;
		call = modulepaths_call(paths, l->j->blocks.block[i].life.birth.stack, l->list.depth);
		if (!call)
			continue;
		advice_at_stack(l->j, a, call);
		l->is_called_by_torch = advice_ends_in(l->j, call, "/torch/nn/modules/");
	}
}

static uint64_t forward_bytes(const struct advice_job *j)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (advice_is_born(j, i, PHASE_FORWARD))
			bytes += j->blocks.block[i].life.size;
	return bytes;
}

/* What the list is called; with its owner where PyTorch calls the layers: the line may call other lists as well. */
static const char *list_text(const struct layers *l, char *buf, size_t size)
{
	const char *name = l->list.name, *owner = "";

	if (l->is_called_by_torch && l->list.parent)
		owner = l->paths->path[l->list.parent - 1].name;
	if (!*owner && !*name)
		return "layers";
	snprintf(buf, size, "%s%s%s", owner, *owner && *name ? "." : "", name);
	return buf;
}

/* How, at the line that calls them, or from outside where it is PyTorch that does. */
static void tell_action(const struct layers *l, struct advice *a, const char *where, const char *list)
{
	const char *with = "";

	if (a->has_site && strstr(a->site.file, "/transformers/"))
		with = "; with transformers, model.gradient_checkpointing_enable()";
	if (l->is_called_by_torch)
		advice_action(a, "once the model is made, for each layer of %.32s, called%s: layer.forward = functools.partial("
				 "torch.utils.checkpoint.checkpoint, layer.forward, use_reentrant=False)", list, where);
	else
		advice_action(a, "wrap the call%s: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)%s",
			      where, with);
}

static void tell(struct layers *l, struct advice *a)
{
	uint64_t kept = 0, stays = 0, passed = 0;
	uint32_t first = UINT32_MAX, last = 0;
	struct modulepath range = { .parent = l->list.parent };
	const char *layers = *l->list.name ? l->list.name : "layers", *list;
	char size[HUMAN_MAX], rest[HUMAN_MAX], share[HUMAN_MAX], where[64], name[128], text[64];

	for (uint32_t i = 0; i < l->list.nr_layers; i++) {
		const struct layer *layer = &l->layer[i];

		if (layer->first == TFMT_NO_ORDINAL)
			continue;
		first = i < first ? i : first;
		last = i;
		kept += layer->kept;
		stays += layer->stays;
		passed += layer->passed;
	}
	modulepaths_text(l->paths, range.parent, 0, name, sizeof(name));
	find_site(l, a);
	advice_where(where, sizeof(where), a);
	list = list_text(l, text, sizeof(text));
	advice_title(a, "checkpoint %.16s %" PRIu32 "-%" PRIu32 "%s", list, first, last, where);
	tell_action(l, a, where, list);
	advice_evidence(a, "%.32s %" PRIu32 "-%" PRIu32 "%s%s keep %s of activations until backward; checkpointed they "
			   "keep %s", layers, first, last, *name ? " of " : "", name, human_bytes(size, kept + stays),
			human_bytes(rest, stays));
	advice_cost(a, "%s of what forward allocates is computed again in backward",
		    human_percent(share, (double)passed, (double)forward_bytes(l->j)));
}

static bool layers_find(struct layers *l)
{
	l->layer = calloc(l->list.nr_layers + 1, sizeof(*l->layer));
	l->of = calloc(l->paths->nr_paths + 1, sizeof(*l->of));
	if (!l->layer || !l->of)
		return false;
	for (uint32_t i = 0; i < l->list.nr_layers; i++)
		l->layer[i] = (struct layer){ .first = TFMT_NO_ORDINAL, .back = TFMT_NO_ORDINAL, .output = SIZE_MAX };
	layerlist_members(&l->list, l->paths, l->of);
	find_forward(l);
	if (!are_in_order(l))
		return false;
	find_outputs(l);
	find_backward(l);
	find_most(l);
	return true;
}

static unsigned nr_layers(const struct layers *l)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < l->list.nr_layers; i++)
		nr += l->layer[i].first != TFMT_NO_ORDINAL;
	return nr;
}

static void try_list(const struct advice_job *j, const struct layerlist *list, struct advice *best)
{
	struct layers l = { .j = j, .paths = j->device->process->books.modulepaths, .list = *list };
	struct advice a = *best;

	if (layers_find(&l) && nr_layers(&l) >= LAYERS_MIN) {
		a.after_bytes = peak_checkpointed(&l);
		if (a.after_bytes < best->after_bytes) {
			a.has_site = false;
			tell(&l, &a);
			*best = a;
		}
	}
	free(l.layer);
	free(l.of);
}

bool advice_checkpointing(const struct advice_job *j, struct advice *a)
{
	const struct modulepaths *paths = j->device->process->books.modulepaths;
	struct layerlist list[LAYERLISTS_MAX];
	size_t nr = paths ? layerlists_find(list, j, paths) : 0;

	a->after_bytes = a->peak_bytes;
	for (size_t i = 0; i < nr; i++)
		if (list[i].nr_layers >= LAYERS_MIN && (double)list[i].bytes > ADVICE_LEAST * (double)j->peak)
			try_list(j, &list[i], a);
	return a->after_bytes < a->peak_bytes;
}
