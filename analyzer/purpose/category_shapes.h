/* SPDX-License-Identifier: MIT */
/*
 * The shapes that tell what a block is for: those of parameters, of gradients, and of what a forward starts with. Keys
 * are those of shapekey.h.
 */
#ifndef VT_CATEGORY_SHAPES_H
#define VT_CATEGORY_SHAPES_H

#include "analyzer/purpose/category_stack.h"
#include "analyzer/purpose/shapekey.h"
#include "analyzer/training/lives.h"

/* Of one process. Each list is ascending. */
struct category_shapes {
	const struct books *books;
	const struct lives *lives;
	uint64_t *parameter, *gradient;
	uint64_t *parameter_sizes; /* the parameters' without their types */
	uint64_t *row;             /* of one row of what a forward has used */
	size_t nr_parameters, nr_gradients, nr_rows;
	size_t nr_parameter_sizes; /* that differ */
	bool has_batches; /* a line before the optimizer's call brings them */
};

/* Also counts for each stack of how many of these shapes it has made blocks beside. */
void category_shapes_find(struct category_shapes *s, const struct books *books, const struct lives *lives,
			 struct category_stacks *stacks);
void category_shapes_release(struct category_shapes *s);

/* Has a block the type and sizes, in any order, of a parameter, of a gradient? */
bool category_shapes_fit_parameter(const struct category_shapes *s, const struct group *g);
bool category_shapes_fit_gradient(const struct category_shapes *s, const struct group *g);

/* Has it the sizes of a parameter, of whatever type? A copy in float32 of weights in bfloat16 has. */
bool category_shapes_fit_sizes(const struct category_shapes *s, const struct group *g);

/* Is it made of such rows as a batch is, in one dimension or several, or one of them? What a replay buffer holds is. */
bool category_shapes_fit_batch(const struct category_shapes *s, const struct group *g);

#endif
