/* SPDX-License-Identifier: MIT */
/* Batches, and the sequences that they were padded from. */
#include "analyzer/patterns/padding.h"

/* `by`: dimensions that the batch has more; 0 where sequences that were padded one by one are laid end to end. */
static bool has_rest(const uint64_t *dims, uint32_t nr_dims, const struct tfmt_shape *batch, uint32_t by)
{
	if (nr_dims + by != batch->nr_dims)
		return false;
	for (uint32_t i = 1; i < nr_dims; i++)
		if (dims[i] != batch->dims[i + by])
			return false;
	return true;
}

void padding_add(struct padding *s, uint64_t nr, uint64_t length)
{
	s->nr += nr;
	s->total += nr * length;
	s->longest = length > s->longest ? length : s->longest;
}

bool padding_holds(const struct tfmt_shape *batch, const struct padding *s, uint32_t by)
{
	const uint64_t *dims = batch->dims;

	if (!s->nr)
		return false;
	if (!by)
		return dims[0] == s->nr * s->longest;
	return (dims[0] == s->nr && dims[1] == s->longest) || (dims[0] == s->longest && dims[1] == s->nr);
}

/* Those of a place that this step made before the batch. */
static struct padding sequences_of(const struct moment *at, const struct stepinputs_place *p, size_t batch, uint32_t by)
{
	const struct tfmt_shape *shape = &at->block[batch].shape;
	uint64_t until = at->live[batch].life.birth.ordinal;
	struct padding s = { 0 };

	for (uint32_t i = stepinputs_from(p, at->step_ordinal); i < p->nr_changes && p->change[i].ordinal < until; i++) {
		const struct stepinputs_change *c = &p->change[i];

		if (!has_rest(c->dims, c->nr_dims, shape, by))
			return (struct padding){ 0 };
		padding_add(&s, c->nr, c->dims[0]);
	}
	return s;
}

static bool is_of_model(const struct moment *at, uint32_t group)
{
	for (size_t i = 0; i < at->nr_blocks; i++)
		if (at->live[i].life.group == group && !moment_is_passing(at->live[i].category))
			return true;
	return false;
}

/*
 * Before the first backward pass: all of the batch's type that were made outside of the model, from any place. Copies
 * that were padded one by one are all alike.
 */
static struct padding sequences_of_first(const struct moment *at, const struct tfmt_shape *batch, uint32_t by)
{
	const struct books *books = at->device->process->books;
	const struct lives *lives = at->device->process->lives;
	struct padding s = { 0 };
	struct tfmt_shape shape;

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);
		uint64_t nr = group_figures_at(g, MARK_OOM).blocks;

		if (!g->tensor || g->device != at->device->ordinal || !g->shape ||
		    (g->phase != PHASE_INIT && g->phase != PHASE_OTHER) ||
		    !tfmt_reader_shape(books_reader(books), g->shape, &shape) || !shape.nr_dims ||
		    shape.element_type != batch->element_type || !has_rest(shape.dims, shape.nr_dims, batch, by) || is_of_model(at, i))
			continue;
		for (int k = 0; k < NR_FATES; k++)
			nr += lives->fates[i].nr[k];
		if (nr && batch->dims[0] != (by ? nr : nr * shape.dims[0]))
			padding_add(&s, nr, shape.dims[0]);
	}
	return s;
}

static void take_least(struct padding *found, const struct tfmt_shape *batch, const struct padding *s, uint32_t by)
{
	if (padding_holds(batch, s, by) && (!found->nr || s->total < found->total))
		*found = *s;
}

/*
 * Is this block a batch of sequences that were made for it, by one place or several? Of what may be them, those with
 * least in them: copies that were padded one by one are as full as the batch.
 */
static bool is_padded(const struct moment *at, const struct stepinputs_device *inputs, size_t block,
		      struct padding *found)
{
	const struct tfmt_shape *shape = &at->block[block].shape;
	struct padding one = { 0 }, rest;

	*found = one;
	if (!at->block[block].is_shaped || at->live[block].life.birth.ordinal < at->step_ordinal)
		return false;
	for (uint32_t by = 0; by <= 1 && by < shape->nr_dims; by++) {
		if (!at->nr_begun && at->device->process->lives) {
			one = sequences_of_first(at, shape, by);
			take_least(found, shape, &one, by);
		}
		rest = (struct padding){ 0 };
		for (uint32_t i = 0; inputs && i < inputs->nr_places; i++) {
			one = sequences_of(at, &inputs->place[i], block, by);
			take_least(found, shape, &one, by);
			if (padding_holds(shape, &one, by))
				continue;
			rest.nr += one.nr;
			rest.total += one.total;
			rest.longest = one.longest > rest.longest ? one.longest : rest.longest;
		}
		take_least(found, shape, &rest, by);
	}
	return found->nr && found->total < found->nr * found->longest;
}

bool padding_find(struct padding *p, const struct moment *at, const struct stepinputs_device *inputs, size_t *batch)
{
	for (*batch = 0; *batch < at->nr_blocks; ++*batch)
		if (is_padded(at, inputs, *batch, p))
			return p->total != 0;
	return false;
}
