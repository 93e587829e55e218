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

/*
 * When forward lets go of a block that nothing keeps for backward: nobody has recorded when the program's last variable of it
 * went. In a chain of operations each has its operand until it returns, and the next one has begun to allocate.
 */
static uint64_t let_go(const struct layerspans *l, const struct layerspan *span, size_t i)
{
	int32_t k = layerspans_layer(l, i);
	unsigned after = 0;

	if (jobpart_is_cast(l->j, i)) /* autocast has it until forward ends */
		return l->j->backward;
	while (++i < l->j->blocks.nr_blocks && l->j->blocks.block[i].life.birth.ordinal < span->end)
		if (layerspans_layer(l, i) == k && ++after == 2)
			return l->j->blocks.block[i].life.birth.ordinal;
	return span->end;
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

static void compute_again(struct edits *e, struct layer_again *again, uint64_t back)
{
	if (again->nr)
		qsort(again->again, again->nr, sizeof(*again->again), by_ordinal);
	for (size_t i = 0; i < again->nr; i++)
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
