/* SPDX-License-Identifier: MIT */
/* Shares of forward's stacks; see forwardstacks.h. */
#include "analyzer/analysis/forwardstacks.h"

#include <stdlib.h>

#include "analyzer/analysis/framekind.h"
#include "analyzer/stack.h"

/* Of the steps, in so many there is a shape that was not there before. */
#define NEW_SHAPES 0.8
/* Of forward's stacks, so many have. */
#define VARYING 0.75
/* A stack with more shapes makes other ones all the time. */
#define SHAPES_OF_PIECE 2

/* Groups of one Python stack, by index: as they appeared. */
struct run {
	const uint32_t *group;
	uint32_t nr, nr_shapes;
};

struct sorted_groups {
	uint32_t *group;
	uint32_t nr;
};

static int compare_groups(const void *va, const void *vb, void *data)
{
	const struct groups *groups = data;
	uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
	const struct group *a = &groups->group[i], *b = &groups->group[k];

	if (a->python_stack != b->python_stack)
		return a->python_stack < b->python_stack ? -1 : 1;
	return (i > k) - (i < k);
}

/* The device's tensors with a Python stack: what forward makes, or what others than passes do. 0 or TFMT_E_NOMEM. */
static int sort_groups(struct sorted_groups *s, const struct stepcauses *c, bool of_forward)
{
	struct groups *groups = &c->books->groups;

	s->nr = 0;
	s->group = malloc((groups->nr_groups ? groups->nr_groups : 1) * sizeof(*s->group));
	if (!s->group)
		return TFMT_E_NOMEM;
	for (uint32_t i = 0; i < groups->nr_groups; i++) {
		const struct group *g = &groups->group[i];

		bool is_asked = of_forward ? g->phase == PHASE_FORWARD : g->phase == PHASE_OTHER || g->phase == PHASE_INIT;

		if (c->of_group[i] != UINT32_MAX && g->tensor && is_asked && g->python_stack >= TFMT_STACK_FIRST)
			s->group[s->nr++] = i;
	}
	if (s->nr)
		qsort_r(s->group, s->nr, sizeof(*s->group), compare_groups, groups);
	return 0;
}

/* The next stack from *at on, which is moved behind it; false: there is none. */
static bool next_run(struct run *r, const struct sorted_groups *s, const struct stepcauses *c, uint32_t *at)
{
	const struct group *group = c->books->groups.group;
	uint32_t first = *at;

	if (first == s->nr)
		return false;
	*r = (struct run){ .group = s->group + first };
	while (*at < s->nr && group[s->group[*at]].python_stack == group[s->group[first]].python_stack)
		r->nr_shapes += group[s->group[(*at)++]].shape != 0;
	r->nr = *at - first;
	return true;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

int forwardstacks_are_hooks_rare(const struct stepcauses *c, bool *are_rare)
{
	struct stack_source source = model_stack_source(c->model, c->process);
	struct sorted_groups sorted;
	struct stack stack = { 0 };
	uint32_t nr[FRAME_HOOKED + 1] = { 0 };
	struct run run;
	int err = sort_groups(&sorted, c, true);

	for (uint32_t at = 0; !err && next_run(&run, &sorted, c, &at);) {
		err = stack_expand(&stack, &source, c->books->groups.group[run.group[0]].python_stack, 0);
		if (!err)
			nr[frame_module_of(&stack)]++;
	}
	*are_rare = nr[FRAME_HOOKED] <= nr[FRAME_MODULE];
	stack_release(&stack);
	free(sorted.group);
	return err;
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* The one dimension in which b is larger than a, by *by; -1: there is none. */
static int grown_dim(const struct tfmt_shape *a, const struct tfmt_shape *b, uint64_t *by)
{
	int dim = -1;

	if (a->nr_dims != b->nr_dims || a->element_type != b->element_type)
		return -1;
	for (uint32_t i = 0; i < a->nr_dims; i++) {
		if (a->dims[i] == b->dims[i])
			continue;
		if (dim >= 0 || b->dims[i] < a->dims[i])
			return -1;
		dim = (int)i;
		*by = b->dims[i] - a->dims[i];
	}
	return dim;
}

/* Is a shape the newer one, but only so large in one dimension? */
static bool is_piece(const struct tfmt_shape *s, const struct tfmt_shape *newer, uint32_t dim, uint64_t by)
{
	if (s->nr_dims != newer->nr_dims || s->element_type != newer->element_type)
		return false;
	for (uint32_t i = 0; i < s->nr_dims; i++)
		if (s->dims[i] != (i == dim ? by : newer->dims[i]))
			return false;
	return true;
}

/* Is there a tensor of a shape that stays, just as large as what has come on? Then it was put together from what was. */
static bool is_put_together(const struct stepcauses *c, const struct sorted_groups *s, const struct tfmt_shape *older,
			    const struct tfmt_shape *newer)
{
	uint64_t by = 0;
	int dim = grown_dim(older, newer, &by);
	struct tfmt_shape shape;
	uint32_t at = 0;
	struct run run;

	while (dim >= 0 && next_run(&run, s, c, &at))
		for (uint32_t i = 0; run.nr_shapes <= SHAPES_OF_PIECE && i < run.nr; i++)
			if (tfmt_reader_shape(c->process->reader, c->books->groups.group[run.group[i]].shape, &shape) &&
			    is_piece(&shape, newer, (uint32_t)dim, by))
				return true;
	return false;
}

/* Is there a larger tensor than any before in each step, and not put together from the one before and another? */
static bool is_growing_batch(const struct run *run, const struct stepcauses *c, const struct sorted_groups *outside,
			     const struct sorted_groups *forward, uint32_t nr_steps)
{
	const struct group *group = c->books->groups.group, *largest = &group[run->group[0]], *before = NULL;
	struct tfmt_shape older, newer;
	uint32_t nr = 1;

	for (uint32_t i = 1; i < run->nr; i++) {
		if (group[run->group[i]].shape_bytes <= largest->shape_bytes)
			continue;
		before = largest;
		largest = &group[run->group[i]];
		nr++;
	}
	return before && nr >= NEW_SHAPES * nr_steps &&
	       tfmt_reader_shape(c->process->reader, before->shape, &older) &&
	       tfmt_reader_shape(c->process->reader, largest->shape, &newer) &&
	       !is_put_together(c, outside, &older, &newer) && !is_put_together(c, forward, &older, &newer);
}

int forwardstacks_follow_batch(const struct stepcauses *c, uint32_t nr_steps, bool *follow)
{
	struct sorted_groups outside = { 0 }, forward = { 0 };
	uint32_t nr = 0, nr_varying = 0;
	bool has_batch = false;
	struct run run;
	int err = sort_groups(&outside, c, false);

	err = err ? err : sort_groups(&forward, c, true);
	for (uint32_t at = 0; !err && !has_batch && next_run(&run, &outside, c, &at);)
		has_batch = is_growing_batch(&run, c, &outside, &forward, nr_steps);
	for (uint32_t at = 0; !err && has_batch && next_run(&run, &forward, c, &at);) {
		nr += run.nr_shapes != 0;
		nr_varying += run.nr_shapes >= NEW_SHAPES * nr_steps;
	}
	*follow = nr && nr_varying >= VARYING * nr;
	free(outside.group);
	free(forward.group);
	return err;
}
