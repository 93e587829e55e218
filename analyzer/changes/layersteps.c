/* SPDX-License-Identifier: MIT */
/* Steps by which layers are computed twice. */
#include "analyzer/changes/layersteps.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

/* A request of a layer's forward, or a free, when it is computed again. */
struct again {
	uint64_t ordinal; /* of the recorded event */
	uint64_t birth;
	enum edit_kind kind;
};

struct layer_again {
	struct again *again;
	size_t nr, room;
};

static void add(struct layer_again *l, uint64_t ordinal, uint64_t birth, enum edit_kind kind)
{
	l->again = heap_grow(l->again, &l->room, l->nr + 1, sizeof(*l->again));
	l->again[l->nr++] = (struct again){ ordinal, birth, kind };
}

static int by_ordinal(const void *va, const void *vb)
{
	const struct again *a = va, *b = vb;

	return a->ordinal < b->ordinal ? -1 : a->ordinal > b->ordinal;
}

/* The next block of that layer's forward; SIZE_MAX: this is the last. */
static size_t next_of_layer(const struct layerspans *l, const struct layerspan *span, size_t i)
{
	int32_t k = layerspans_layer(l, i);

	while (++i < l->j->blocks.nr_blocks && l->j->blocks.block[i].life.birth.ordinal < span->end)
		if (layerspans_layer(l, i) == k)
			return i;
	return SIZE_MAX;
}

/* The module that the forward which has got block i calls next, to make block `next`; 0: it calls none, but an operation. */
static uint32_t called_next(const struct layerspans *l, size_t i, size_t next)
{
	uint32_t has = l->j->blocks.block[i].module, makes = l->j->blocks.block[next].module;
	uint32_t depth = modulepaths_depth(l->paths, makes), common = 0;

	while (common < depth && modulepaths_ancestor(l->paths, has, common + 1) == modulepaths_ancestor(l->paths, makes, common + 1))
		common++;
	return common < depth ? modulepaths_ancestor(l->paths, makes, common + 1) : 0;
}

static bool is_made_in(const struct layerspans *l, size_t i, uint32_t module)
{
	return modulepaths_ancestor(l->paths, l->j->blocks.block[i].module, modulepaths_depth(l->paths, module)) == module;
}

/*
 * When forward lets go of a block that nothing keeps for backward: nobody has recorded when the program's last variable of it
 * went. It has an operand until what it calls with it has returned, an operation or a module, all that this module makes
 * within included: x = self.norm(x), x = self.mlp(x).
 */
static uint64_t let_go(const struct layerspans *l, const struct layerspan *span, size_t i)
{
	size_t next = next_of_layer(l, span, i);
	uint32_t module;

	if (jobpart_is_cast(l->j, i)) /* autocast has it until forward ends */
		return l->j->backward;
	if (next == SIZE_MAX)
		return span->end;
	module = called_next(l, i, next);
	do
		next = next_of_layer(l, span, next);
	while (next != SIZE_MAX && module && is_made_in(l, next, module));
	return next == SIZE_MAX ? span->end : l->j->blocks.block[next].life.birth.ordinal;
}

/* A block that the layer's forward has made, not its output. */
static void add_block(struct edits *e, struct layer_again *again, const struct layerspans *l, const struct layerspan *span,
		      size_t i)
{
	const struct life *life = &l->j->blocks.block[i].life;
	uint64_t birth = life->birth.ordinal, death = life->death.ordinal, end = let_go(l, span, i);

	if (span->back == TFMT_NO_ORDINAL) { /* memory ran out first */
		if (death > l->j->to)
			edits_step(e, end, EDIT_FREE, birth);
		return;
	}
	if (death <= end || death <= span->back) { /* it is needed within forward alone */
		add(again, birth, birth, EDIT_APART);
		add(again, death < span->end ? death : span->end, birth, EDIT_APART_FREE);
		return;
	}
	edits_step(e, end, EDIT_FREE, birth);
	add(again, birth, birth, EDIT_AGAIN);
}

/* The output is the next layer's input: it stays until that one's backward is through, when this one's begins. */
static void keep_output(struct edits *e, const struct layerspans *l, const struct layerspan *span)
{
	const struct life *life = &l->j->blocks.block[span->output].life;

	if (life->death.ordinal >= span->back)
		return;
	edits_step(e, life->death.ordinal + 1, EDIT_APART, life->birth.ordinal);
	edits_step(e, span->back, EDIT_APART_FREE, life->birth.ordinal);
}

/*
 * A layer is computed again up to the last tensor that backward needs, and no further (torch.utils.checkpoint,
 * set_checkpoint_early_stop()): what there is then goes.
 */
static void compute_again(struct edits *e, struct layer_again *again, uint64_t back)
{
	uint64_t last = 0;

	if (again->nr)
		qsort(again->again, again->nr, sizeof(*again->again), by_ordinal);
	for (size_t i = 0; i < again->nr; i++)
		if (again->again[i].kind == EDIT_AGAIN)
			last = again->again[i].birth;
	for (size_t i = 0; i < again->nr; i++)
		if (again->again[i].birth <= last)
			edits_step(e, back, again->again[i].kind, again->again[i].birth);
}

/* The layer that forward called last: what it hands on, no layer takes. */
static uint32_t last_called(const struct layerspans *l)
{
	uint32_t last = 0;
	uint64_t latest = 0;

	for (uint32_t k = 0; k < l->nr_layers; k++) {
		if (l->span[k].first == TFMT_NO_ORDINAL || l->span[k].first < latest)
			continue;
		latest = l->span[k].first;
		last = k;
	}
	return last;
}

uint32_t layersteps_add(struct edits *e, const struct layerspans *l)
{
	struct layer_again *again = heap_alloc(l->nr_layers, sizeof(*again));
	uint32_t nr = 0, last = last_called(l);

	for (size_t i = 0; i < l->j->blocks.nr_blocks; i++) {
		int32_t k = layerspans_layer(l, i);
		const struct layerspan *span = k < 0 ? NULL : &l->span[k];

		if (!span || !jobpart_is_born(l->j, i, PHASE_FORWARD))
			continue;
		if (i == span->output && (uint32_t)k != last && span->back != TFMT_NO_ORDINAL)
			keep_output(e, l, span);
		else if (i != span->output)
			add_block(e, &again[k], l, span, i);
	}
	for (uint32_t k = 0; k < l->nr_layers; k++) {
		compute_again(e, &again[k], l->span[k].back);
		nr += l->span[k].first != TFMT_NO_ORDINAL;
		free(again[k].again);
	}
	free(again);
	return nr;
}
