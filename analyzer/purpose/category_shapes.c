/* SPDX-License-Identifier: MIT */
/* Lists of shapes, by the stacks and lives of the blocks that have them. */
#include "analyzer/purpose/category_shapes.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"

static void sort(uint64_t *keys, size_t nr)
{
	qsort(keys, nr, sizeof(*keys), sorted_compare);
}

/* A square matrix may be of features with features: it tells nothing of rows. */
static bool has_rows(const struct category_shapes *s, const struct group *g)
{
	struct tfmt_shape shape;

	return g->shape && tfmt_reader_shape(books_reader(s->books), g->shape, &shape) &&
	       !(shape.nr_dims == 2 && shape.dims[0] == shape.dims[1]);
}

/* A line before the optimizer's call that brings batches: they last into a pass, or until the next ones come. */
static bool brings_batches(const struct category_shapes *s, const struct group *g, const struct lives_fates *f)
{
	const struct lives *l = s->lives;

	return (f->nr[FATE_INTO_PASS] || (f->nr[FATE_KEPT] > 1 && !f->nr_long)) &&
	       lives_brings_batch(l, g->python_stack) &&
	       updatesites_order(&l->steps.sites, l->steps.reader, g->python_stack) < 1;
}

/* One group: a parameter by its stack, a gradient that has outlived its pass, or a batch that lasted into one. */
static void add_group(struct category_shapes *s, struct category_stacks *stacks, const struct group *g,
		      const struct lives_fates *f)
{
	uint64_t key = g->tensor ? shapekey_of(s->books, g) : 0;

	if (!key)
		return;
	if (category_stack_of(stacks, g->python_stack).kept == CATEGORY_PARAMETER) {
		s->parameter_sizes[s->nr_parameters] = shapekey_sizes(s->books, g);
		s->parameter[s->nr_parameters++] = key;
	} else if (g->phase == PHASE_BACKWARD) {
		/* A hook may make what it likes. */
		if (!f || !(f->nr[FATE_OUT_OF_PASS] || f->nr[FATE_KEPT]) ||
		    category_stack_of(stacks, g->python_stack).in_hook)
			return;
		s->gradient[s->nr_gradients++] = key;
	} else if (f && g->phase <= PHASE_INIT && has_rows(s, g)) {
		bool brings = brings_batches(s, g, f);

		if (!brings && (!f->nr[FATE_INTO_PASS] || lives_follows_graph(s->lives, g->python_stack)))
			return;
		s->row[s->nr_rows] = shapekey_rows(s->books, g, 1);
		s->has_batches |= brings && s->row[s->nr_rows];
		s->nr_rows++;
	}
}

/* Gradients that are live at the end have not been counted with the fates. */
static void add_live_gradients(struct category_shapes *s, struct category_stacks *stacks)
{
	const struct lives *lives = s->lives;

	for (size_t i = 0; i < lives->nr_lives; i++) {
		const struct life *life = &lives->life[i];
		uint64_t key;

		if (!life->is_live || life->birth.phase != PHASE_BACKWARD || life->flags & TFMT_FLAG_FORWARD ||
		    life->birth.nr_ended == lives->now.nr_ended || category_stack_of(stacks, life->birth.stack).in_hook)
			continue;
		key = shapekey_of(s->books, books_group(s->books, life->group));
		if (key)
			s->gradient[s->nr_gradients++] = key;
	}
}

/* How many sizes parameters have, and how many of them each line has ever made beside. */
static void count_sizes(struct category_shapes *s, struct category_stacks *stacks)
{

	for (size_t i = 0; i < s->nr_parameters; i++)
		s->nr_parameter_sizes += !i || s->parameter_sizes[i] != s->parameter_sizes[i - 1];
	for (uint32_t i = 0; i < books_nr_groups(s->books); i++) {
		const struct group *g = books_group(s->books, i);

		if (g->tensor && g->phase <= PHASE_FORWARD && category_shapes_fit_sizes(s, g))
			category_stack_count_shape(stacks, g->python_stack);
	}
}

void category_shapes_find(struct category_shapes *s, const struct books *books, const struct lives *lives,
			 struct category_stacks *stacks)
{
	size_t nr = books_nr_groups(books) + 1;

	*s = (struct category_shapes){ .books = books, .lives = lives };
	s->parameter = heap_alloc(nr, sizeof(*s->parameter));
	s->parameter_sizes = heap_alloc(nr, sizeof(*s->parameter_sizes));
	s->row = heap_alloc(nr, sizeof(*s->row));
	s->gradient = heap_alloc(nr + lives->nr_lives, sizeof(*s->gradient));
	for (uint32_t i = 0; i < books_nr_groups(books); i++)
		add_group(s, stacks, books_group(books, i), i < lives->nr_fates ? &lives->fates[i] : NULL);
	add_live_gradients(s, stacks);
	sort(s->parameter, s->nr_parameters);
	sort(s->parameter_sizes, s->nr_parameters);
	sort(s->gradient, s->nr_gradients);
	sort(s->row, s->nr_rows);
	count_sizes(s, stacks);
}

bool category_shapes_fit_parameter(const struct category_shapes *s, const struct group *g)
{
	return shapekey_in(s->parameter, s->nr_parameters, shapekey_of(s->books, g));
}

bool category_shapes_fit_gradient(const struct category_shapes *s, const struct group *g)
{
	return shapekey_in(s->gradient, s->nr_gradients, shapekey_of(s->books, g));
}

bool category_shapes_fit_sizes(const struct category_shapes *s, const struct group *g)
{
	return shapekey_in(s->parameter_sizes, s->nr_parameters, shapekey_sizes(s->books, g));
}

bool category_shapes_fit_batch(const struct category_shapes *s, const struct group *g)
{
	struct tfmt_shape shape;

	if (!has_rows(s, g) || !tfmt_reader_shape(books_reader(s->books), g->shape, &shape))
		return false;
	for (uint32_t i = 0; i < shape.nr_dims; i++)
		if (shapekey_in(s->row, s->nr_rows, shapekey_rows(s->books, g, i)))
			return true;
	return false;
}

void category_shapes_release(struct category_shapes *s)
{
	free(s->parameter);
	free(s->parameter_sizes);
	free(s->gradient);
	free(s->row);
}
