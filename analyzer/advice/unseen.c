/* SPDX-License-Identifier: MIT */
/* The rest of a forward, by the parameters that it has not used yet. */
#include "analyzer/advice/unseen.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/changes/layerlist.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/patterns/vocabulary.h"

#define STATE_TENSORS 2 /* that Adam keeps of each parameter */
#define LOGITS_BYTES 16 /* for each: logits, their log_softmax, and the gradients of both, in float32 */
#define LOGITS_FREED 12 /* for each: the same without logits, if the program does not keep them */
#define GRADIENTS_BYTES 8 /* for each: both gradients alone */

/* ---- layers ---------------------------------------------------------------------------------- */

/*
 * How often the parameters repeat: the longest run in which each has the shape of the one `period` before it. 0: as
 * many parameters as a layer has come after the run, so that its layers are not all there are.
 */
static uint32_t nr_repeats(const uint64_t *key, size_t nr)
{
	uint32_t repeats = 0;
	size_t most = 0;

	for (size_t period = PERIOD_MIN; period <= PERIOD_MAX && 2 * period <= nr; period++) {
		size_t run = 0;

		for (size_t i = period; i < nr; i++) {
			run = key[i] == key[i - period] ? run + 1 : 0;
			if (run >= period && run + period > most) {
				most = run + period;
				repeats = nr - 1 - i < period ? (uint32_t)(most / period) : 0;
			}
		}
	}
	return repeats;
}

static uint32_t nr_layers(const struct jobpart *j)
{
	uint64_t *key = heap_alloc(j->blocks.nr_blocks, sizeof(*key));
	uint32_t repeats;
	size_t nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->blocks.block[i].category == CATEGORY_PARAMETER && j->key[i])
			key[nr++] = j->key[i];
	repeats = nr_repeats(key, nr);
	free(key);
	return repeats;
}

/* The list with the most activations, the outermost of several. NULL: none. */
static const struct layerlist *largest(const struct layerlist *list, size_t nr)
{
	const struct layerlist *best = NULL;

	for (size_t i = 0; i < nr; i++)
		if (!best || list[i].bytes > best->bytes ||
		    (list[i].bytes == best->bytes && list[i].depth < best->depth))
			best = &list[i];
	return best;
}

/*
 * Bytes of a layer: what it had live when memory ran out, at most while it ran, and its largest blocks. A library's
 * workspace is made once, by the first layer that needs it.
 */
struct layer_bytes {
	uint64_t stays, most, largest;
	unsigned nr_largest;
};

static struct layer_bytes bytes_of(const struct unseen *u, const struct jobpart *j, const struct batchcut *c,
				   uint32_t layer)
{
	struct jobpart alone = *j; /* the job, if the layer were all of it */
	struct layer_bytes of = { 0 };
	struct edits e = { 0 };
	size_t room = 0;

	alone.asked = alone.base = alone.floor = 0;
	alone.blocks = (struct categories){ 0 };
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		uint32_t path = j->blocks.block[i].module;
		uint64_t size = batchcut_size(c, j, i);

		if (path > u->nr_paths || u->of[path] != (int32_t)layer || !jobpart_is_born(j, i, PHASE_FORWARD) ||
		    j->blocks.block[i].category == CATEGORY_WORKSPACE)
			continue;
		alone.blocks.block = heap_grow(alone.blocks.block, &room, alone.blocks.nr_blocks + 1, sizeof(*alone.blocks.block));
		alone.blocks.block[alone.blocks.nr_blocks++] = j->blocks.block[i];
		edits_resize(&e, life->birth.ordinal, size);
		of.stays += life->death.ordinal > j->to ? size : 0;
		of.nr_largest = size > of.largest ? 1 : of.nr_largest + (size == of.largest);
		of.largest = size > of.largest ? size : of.largest;
	}
	of.most = editpeak_once(&alone, &e);
	free(alone.blocks.block);
	return of;
}

/* Has each layer that ran as a whole kept about as much as the last of them? */
static bool are_alike(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	uint64_t last = u->layer ? bytes_of(u, j, c, u->layer - 1).stays : 0;

	for (uint32_t i = 0; i + 1 < u->layer; i++) {
		uint64_t stays = bytes_of(u, j, c, i).stays, less = stays < last ? stays : last;

		if ((double)(stays + last - 2 * less) > LAYERS_ALIKE * (double)last)
			return false;
	}
	return last != 0;
}

/* What a layer has at most, in backward as in forward, follows its largest block. Returns 0 where layers are not alike. */
static uint64_t largest_of(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (uint32_t i = 0; i <= u->layer; i++) {
		uint64_t bytes = bytes_of(u, j, c, i).largest;

		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	return (double)(most - least) > LAYERS_ALIKE * (double)most ? 0 : most;
}

static void find_layers(struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	const struct modulepaths *paths = j->device->process->modulepaths;
	struct layerlist list[LAYERLISTS_MAX];
	const struct layerlist *of = paths ? largest(list, layerlists_find(list, j, paths)) : NULL;
	uint32_t nr = of ? nr_layers(j) : 0;

	if (!of || nr < of->nr_layers)
		return;
	u->nr_paths = paths->nr_paths;
	u->of = heap_alloc(u->nr_paths + 1, sizeof(*u->of));
	layerlist_members(of, paths, u->of);
	u->layer = of->nr_layers - 1;
	if (u->in_backward)
		u->nr_layers = nr == of->nr_layers && largest_of(u, j, c) ? nr : 0;
	else
		u->nr_layers = are_alike(u, j, c) ? nr : 0;
}

/* ---- logits ---------------------------------------------------------------------------------- */

static bool is_matrix(const struct jobpart *j, size_t i)
{
	return j->blocks.block[i].category == CATEGORY_PARAMETER && j->shape[i].nr_dims == 2;
}

/* Has a step that went through made logits over so many words? */
static bool has_made_logits(const struct books *books, uint64_t vocabulary)
{
	struct tfmt_shape s;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->shape && tfmt_reader_shape(books_reader(books), g->shape, &s) && s.nr_dims >= 2 &&
		    s.dims[s.nr_dims - 1] == vocabulary)
			return true;
	}
	return false;
}

/* The embedding is the first matrix of a model of text. If its size comes again at the end, that makes logits. */
static void find_vocabulary(struct unseen *u, const struct jobpart *j)
{
	const struct tfmt_shape *first = NULL, *last = NULL;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		if (!is_matrix(j, i))
			continue;
		first = first ? first : &j->shape[i];
		last = &j->shape[i];
	}
	if (!first)
		return;
	if (last->dims[0] == first->dims[0] || vocabulary_may_be(first->dims[0]))
		u->vocabulary = first->dims[0];
	if (j->device->process->lives->steps.nr_backwards &&
	    !has_made_logits(j->device->process->books, u->vocabulary))
		u->vocabulary = 0;
}

static bool is_all_tokens(const struct batchcut *c, uint64_t rows)
{
	return rows == c->batch * c->length || rows == c->batch * (c->length - 1);
}

/* Does the request that failed have the size of logits, in 16 bits or 32, of all tokens or of all but one? */
static bool asks_for_logits(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	for (uint64_t size = 2; size <= 4; size += 2)
		for (uint64_t length = c->length - 1; length <= c->length; length++)
			if (j->asked == torch_rounded(size * u->vocabulary * c->batch * length))
				return true;
	return false;
}

/* What logits there were already, the request that failed among them. */
static uint64_t seen_bytes(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct tfmt_shape *s = &j->shape[i];

		if (s->nr_dims >= 2 && s->dims[s->nr_dims - 1] == u->vocabulary && jobpart_is_kept(j, i) &&
		    is_all_tokens(c, jobpart_elements(s) / u->vocabulary) &&
		    j->blocks.block[i].life.death.ordinal > j->to)
			bytes += batchcut_size(c, j, i);
	}
	if (asks_for_logits(u, j, c))
		bytes += batchcut_asked(c, j);
	return bytes;
}

static uint64_t nr_logits(const struct unseen *u, const struct batchcut *c)
{
	uint64_t samples = c->of_length ? c->batch : c->part, length = c->of_length ? c->part : c->length;

	return u->vocabulary * samples * length;
}

static uint64_t logits_bytes(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	uint64_t all = nr_logits(u, c) * (u->are_freed ? LOGITS_FREED : LOGITS_BYTES);
	uint64_t seen = all ? seen_bytes(u, j, c) : 0;

	return all > seen ? all - seen : 0;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

/* Before the first update nobody knows what it will keep: as much as Adam does. */
static void find_state(struct unseen *u, const struct jobpart *j)
{
	if (j->device->process->lives->steps.updated.nr_bounds)
		return;
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];

		if (b->category == CATEGORY_PARAMETER)
			u->state_bytes += STATE_TENSORS * b->life.size;
	}
}

/* ---- backward, and its end ----------------------------------------------------------------------- */

static uint64_t sum_of(const struct jobpart *j, enum category category)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->blocks.block[i].category == category && j->blocks.block[i].life.birth.ordinal <= j->to)
			bytes += j->blocks.block[i].life.size;
	return bytes;
}

uint64_t unseen_gradients(const struct jobpart *j)
{
	uint64_t parameters = sum_of(j, CATEGORY_PARAMETER), state = sum_of(j, CATEGORY_OPTIMIZER_STATE),
		 gradients = sum_of(j, CATEGORY_GRADIENT);

	if (!j->asked || j->asked_phase == PHASE_OPTIMIZER)
		return 0;
	if (state && state < parameters)
		parameters = state;
	return parameters > gradients ? parameters - gradients : 0;
}

static bool is_there(const struct jobpart *j, size_t i)
{
	const struct life *life = &j->blocks.block[i].life;

	return life->birth.ordinal <= j->to && life->death.ordinal > j->to;
}

/* What there was at the failure, with the request. */
static uint64_t now_bytes(const struct jobpart *j, const struct batchcut *c)
{
	uint64_t bytes = batchcut_asked(c, j);

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		bytes += is_there(j, i) ? batchcut_size(c, j, i) : 0;
	return bytes;
}

/* At the end of backward what forward had made is gone, and all gradients are there. */
static uint64_t end_bytes(const struct jobpart *j)
{
	uint64_t bytes = unseen_gradients(j);

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		enum category category = j->blocks.block[i].category;

		if (is_there(j, i) && category != CATEGORY_ACTIVATION && category != CATEGORY_TEMPORARY)
			bytes += j->blocks.block[i].life.size;
	}
	return bytes;
}

/* Logits that are there, of what forward has made, and of what backward has, with the request. */
static void find_logits(const struct unseen *u, const struct jobpart *j, const struct batchcut *c,
			uint64_t *of_forward, uint64_t *of_backward)
{
	*of_forward = *of_backward = 0;
	for (size_t i = 0; i < j->blocks.nr_blocks && u->vocabulary; i++) {
		const struct tfmt_shape *s = &j->shape[i];

		if (is_there(j, i) && s->nr_dims >= 2 && s->dims[s->nr_dims - 1] == u->vocabulary &&
		    is_all_tokens(c, jobpart_elements(s) / u->vocabulary))
			*(jobpart_is_born(j, i, PHASE_BACKWARD) ? of_backward : of_forward) += batchcut_size(c, j, i);
	}
	if (*of_forward && asks_for_logits(u, j, c))
		*of_backward += batchcut_asked(c, j);
}

/* Until logits are gone, the rest of their gradients; after them the gradients of a layer's largest blocks. */
static uint64_t rest_of_backward(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	uint64_t logits, now, all;

	find_logits(u, j, c, &logits, &now);
	if (logits) {
		all = nr_logits(u, c) * GRADIENTS_BYTES;
		return all > now ? all - now : 0;
	}
	now = batchcut_asked(c, j);
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_there(j, i) && j->blocks.block[i].category == CATEGORY_TEMPORARY)
			now += batchcut_size(c, j, i);
	all = GRADIENTS_MAX * largest_of(u, j, c);
	return all > now ? all - now : 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

void unseen_find(struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	*u = (struct unseen){ .is_unknown = j->asked && j->asked_phase != PHASE_OPTIMIZER };
	if (!u->is_unknown || jobpart_is_inference(j)) /* without training nothing is kept, nor updated */
		return;
	u->in_backward = j->asked_phase == PHASE_BACKWARD;
	if (u->in_backward ||
	    ((j->asked_phase == PHASE_FORWARD || j->asked_phase == PHASE_OTHER) && j->backward == TFMT_NO_ORDINAL))
		find_layers(u, j, c);
	if (!u->nr_layers)
		return;
	u->is_unknown = false;
	find_state(u, j);
	if (c->length && j->shape[c->input].nr_dims == 2)
		find_vocabulary(u, j);
}

void unseen_release(struct unseen *u)
{
	free(u->of);
	*u = (struct unseen){ 0 };
}

/*
 * Within the last layer, or after it: there the loss has its logits, or backward the gradients of the largest
 * blocks.
 */
static uint64_t after(const struct layer_bytes *last, uint64_t logits)
{
	unsigned nr = last->nr_largest < GRADIENTS_MAX ? last->nr_largest : GRADIENTS_MAX;
	uint64_t gradients = nr * last->largest, more = last->stays + (logits > gradients ? logits : gradients);

	return more > last->most ? more : last->most;
}

static uint64_t rest_of_forward(const struct unseen *u, const struct jobpart *j, const struct batchcut *c)
{
	uint64_t logits = logits_bytes(u, j, c), now, last;
	struct layer_bytes layer;

	layer = bytes_of(u, j, c, u->layer);
	now = layer.stays + batchcut_asked(c, j);
	if (u->layer)
		layer = bytes_of(u, j, c, u->layer - 1);
	if (u->vocabulary && asks_for_logits(u, j, c))
		logits += batchcut_asked(c, j);
	last = after(&layer, logits);
	return (u->nr_layers - 1 - u->layer) * layer.stays + (last > now ? last - now : 0);
}

uint64_t unseen_bytes(const struct unseen *u, const struct jobpart *j, const struct batchcut *c, uint64_t gradients)
{
	uint64_t rest, now, end;

	if (!u->nr_layers)
		return 0;
	rest = (u->in_backward ? rest_of_backward : rest_of_forward)(u, j, c);
	now = now_bytes(j, c) + gradients;
	end = end_bytes(j);
	return end > now + rest ? end - now : rest;
}
