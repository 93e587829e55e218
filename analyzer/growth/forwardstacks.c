/* SPDX-License-Identifier: MIT */
/* Shares of forward's stacks; see forwardstacks.h. */
#include "analyzer/growth/forwardstacks.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/growth_thresholds.h"
#include "analyzer/stacks/framekind.h"
#include "analyzer/stacks/stack.h"

/* Of the latest growths, so many are looked at, and rises of so many. */
#define GROWTHS 16
#define RISES 256

/* Groups of one Python stack, by index: as they appeared. */
struct run {
	const uint32_t *group;
	uint32_t nr, nr_shapes;
	uint64_t largest; /* bytes of a shape */
};

#define OF_FORWARD (1u << PHASE_FORWARD)
#define OUTSIDE (1u << PHASE_OTHER | 1u << PHASE_INIT)
#define OF_ALL (~0u)

struct sorted_groups {
	uint32_t *group;
	uint32_t nr;
};

static int compare_groups(const void *va, const void *vb, void *data)
{
	const struct books *books = data;
	uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
	const struct group *a = books_group(books, i), *b = books_group(books, k);

	if (a->python_stack != b->python_stack)
		return a->python_stack < b->python_stack ? -1 : 1;
	return (i > k) - (i < k);
}

static bool is_of_device(const struct group *g, const struct replay_device *d)
{
	return g->tensor && g->device == d->ordinal && !g->unrecorded && g->python_stack >= TFMT_STACK_FIRST;
}

/* The device's tensors with a Python stack, of phases in the mask. */
static void sort_groups(struct sorted_groups *s, const struct replay_device *d, unsigned phases)
{
	struct books *books = d->process->books;

	s->nr = 0;
	s->group = heap_alloc(books_nr_groups(books), sizeof(*s->group));
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (is_of_device(g, d) && (phases >> g->phase & 1))
			s->group[s->nr++] = i;
	}
	if (s->nr)
		qsort_r(s->group, s->nr, sizeof(*s->group), compare_groups, books);
}

/* The next stack from *at on, which is moved after it; false: there is none. */
static bool next_run(struct run *r, const struct sorted_groups *s, const struct replay_device *d, uint32_t *at)
{
	const struct books *books = d->process->books;
	uint32_t first = *at, python_stack;

	if (first == s->nr)
		return false;
	*r = (struct run){ .group = s->group + first };
	python_stack = books_group(books, s->group[first])->python_stack;
	for (; *at < s->nr; ++*at) {
		const struct group *g = books_group(books, s->group[*at]);

		if (g->python_stack != python_stack)
			break;
		r->nr_shapes += g->shape != 0;
		r->largest = g->shape_bytes > r->largest ? g->shape_bytes : r->largest;
	}
	r->nr = *at - first;
	return true;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

bool forwardstacks_are_hooks_rare(const struct replay *m, const struct replay_device *d)
{
	struct stack_source source = replay_stack_source(m, d->process);
	struct sorted_groups sorted;
	struct stack stack = { 0 };
	uint32_t nr[FRAME_HOOKED + 1] = { 0 };
	struct run run;

	sort_groups(&sorted, d, OF_FORWARD);
	for (uint32_t at = 0; next_run(&run, &sorted, d, &at);) {
		stack_expand(&stack, &source, books_group(d->process->books, run.group[0])->python_stack, 0);
		nr[frame_module_of(&stack)]++;
	}
	stack_release(&stack);
	free(sorted.group);
	return nr[FRAME_HOOKED] <= nr[FRAME_MODULE] + nr[FRAME_WITHIN_HOOKED];
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	while (text && *text)
		hash = (hash ^ (unsigned char)*text++) * 0x100000001b3;
	return hash;
}

/* Of a stack's frames from the call of the innermost module with hooks on; 0: there is none. */
static uint64_t hash_hooked_call(const struct stack *stack)
{
	uint32_t i = frame_hooked_call(stack);
	uint64_t hash = 0xcbf29ce484222325;

	if (i == stack->nr_frames || frame_module_of(stack) == FRAME_NO_MODULE)
		return 0;
	for (; i < stack->nr_frames; i++) {
		if (!stack->frame[i].python)
			continue;
		hash = hash_text(hash_text(hash, stack->frame[i].file), stack->frame[i].function);
		hash = (hash ^ stack->frame[i].line) * 0x100000001b3;
	}
	return hash;
}

/*
 * Groups are numbered as they appeared. So those of the first such call stand one after the other, whatever shapes come
 * later, and the last of them is the result.
 */
bool forwardstacks_is_result(const struct replay *m, const struct replay_device *d, uint32_t python_stack)
{
	struct stack_source source = replay_stack_source(m, d->process);
	const struct books *books = d->process->books;
	uint32_t expanded = python_stack, last = 0;
	struct stack stack = { 0 };
	uint64_t call, of;

	stack_expand(&stack, &source, python_stack, 0);
	of = call = hash_hooked_call(&stack);
	for (uint32_t i = 0; call && i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (!is_of_device(g, d) || !g->shape)
			continue;
		if (g->python_stack != expanded) {
			stack_expand(&stack, &source, g->python_stack, 0);
			of = hash_hooked_call(&stack);
			expanded = g->python_stack;
		}
		if (of == call)
			last = g->python_stack;
		else if (last)
			break;
	}
	stack_release(&stack);
	return last == python_stack;
}

bool forwardstacks_is_hooked(const struct replay *m, const struct replay_device *d, uint32_t python_stack)
{
	struct stack_source source = replay_stack_source(m, d->process);
	struct stack stack = { 0 };
	enum frame_module module;

	stack_expand(&stack, &source, python_stack, 0);
	module = frame_module_of(&stack);
	stack_release(&stack);
	return module >= FRAME_WITHIN_HOOKED && forwardstacks_are_hooks_rare(m, d) &&
	       (module != FRAME_WITHIN_HOOKED || forwardstacks_is_result(m, d, python_stack));
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

/* The shapes with which a stack's tensors became larger than any before. */
struct growing {
	struct tfmt_shape shape[GROWTHS + 1]; /* the latest of them */
	uint32_t nr, nr_all;
	uint32_t nr_rises; /* different ones, of the latest RISES */
};

/* How many of the values differ. */
static uint32_t count_different(const uint64_t *value, uint32_t nr)
{
	uint32_t different = 0, k;

	for (uint32_t i = 0; i < nr; i++) {
		for (k = 0; k < i && value[k] != value[i]; k++)
			;
		different += k == i;
	}
	return different;
}

/* The run's groups that are larger than all before them go to the front of `larger`, of run->nr; how many those are. */
static uint32_t find_larger(const struct run *run, const struct books *books, uint32_t *larger)
{
	uint64_t largest = 0;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < run->nr; i++) {
		uint64_t bytes = books_group(books, run->group[i])->shape_bytes;

		if (bytes <= largest)
			continue;
		largest = bytes;
		larger[nr++] = run->group[i];
	}
	return nr;
}

static void find_growing(struct growing *g, const struct run *run, const struct replay_device *d)
{
	const struct books *books = d->process->books;
	uint32_t *larger = heap_alloc(run->nr, sizeof(*larger)), nr_rises = 0;
	uint64_t rise[RISES];

	*g = (struct growing){ 0 };
	g->nr_all = find_larger(run, books, larger);
	for (uint32_t i = g->nr_all > RISES ? g->nr_all - RISES : 1; i < g->nr_all; i++)
		rise[nr_rises++] = books_group(books, larger[i])->shape_bytes -
				   books_group(books, larger[i - 1])->shape_bytes;
	g->nr_rises = count_different(rise, nr_rises);
	for (uint32_t i = g->nr_all > GROWTHS ? g->nr_all - GROWTHS - 1 : 0; i < g->nr_all; i++)
		g->nr += tfmt_reader_shape(d->process->reader, books_group(books, larger[i])->shape,
					   &g->shape[g->nr]) != 0;
	free(larger);
}

/* Has a stack made a tensor just as large as what has come on, or so many times? */
static bool makes_piece(const struct run *run, const struct replay_device *d, const struct tfmt_shape *older,
			const struct tfmt_shape *newer, uint32_t times)
{
	uint64_t by = 0;
	int dim = grown_dim(older, newer, &by);
	struct tfmt_shape shape;

	for (uint32_t i = 0; dim >= 0 && i < run->nr; i++) {
		const struct group *group = books_group(d->process->books, run->group[i]);

		if (tfmt_reader_shape(d->process->reader, group->shape, &shape) && !(by % times) &&
		    is_piece(&shape, newer, (uint32_t)dim, by / times))
			return true;
	}
	return false;
}

/* Has a stack hardly more shapes than there are rises? Others make tensors of all sizes, those of the rises among them. */
static bool may_make_pieces(const struct run *run, const struct growing *g)
{
	return run->nr_shapes && run->nr_shapes <= g->nr_rises + g->nr_rises / FEW_SHAPES_PART + 1;
}

/* Does another stack make what comes on? Then it is put together from the one before and that. */
static bool is_put_together(const struct growing *g, const struct replay_device *d, const struct sorted_groups *s,
			    uint32_t python_stack)
{
	uint32_t at = 0, nr;
	struct run run;

	while (g->nr > 1 && next_run(&run, s, d, &at)) {
		if (books_group(d->process->books, run.group[0])->python_stack == python_stack ||
		    !may_make_pieces(&run, g))
			continue;
		for (uint32_t times = 1; times <= (g->nr_rises > 1 ? PIECES_AT_ONCE : 1); times++) {
			nr = 0;
			for (uint32_t i = 1; i < g->nr; i++)
				nr += makes_piece(&run, d, &g->shape[i - 1], &g->shape[i], times);
			if (nr >= PIECES_MIN * (g->nr - 1))
				return true;
		}
	}
	return false;
}

/* Is there a larger tensor than any before in each step, and not put together? */
static bool is_growing_batch(const struct run *run, const struct replay_device *d, const struct sorted_groups *all,
			     uint32_t nr_steps)
{
	struct growing g;

	find_growing(&g, run, d);
	return g.nr > 1 && g.nr_all >= NEW_SHAPES_MIN * nr_steps &&
	       !is_put_together(&g, d, all, books_group(d->process->books, run->group[0])->python_stack);
}

bool forwardstacks_follow_batch(const struct replay_device *d, uint32_t nr_steps)
{
	struct sorted_groups outside = { 0 }, forward = { 0 }, all = { 0 };
	double bytes = 0, varying = 0;
	bool has_batch = false;
	struct run run;

	sort_groups(&outside, d, OUTSIDE);
	sort_groups(&forward, d, OF_FORWARD);
	sort_groups(&all, d, OF_ALL);
	for (uint32_t at = 0; !has_batch && next_run(&run, &outside, d, &at);)
		has_batch = is_growing_batch(&run, d, &all, nr_steps);
	for (uint32_t at = 0; has_batch && next_run(&run, &forward, d, &at);) {
		bytes += (double)run.largest;
		varying += run.nr_shapes >= NEW_SHAPES_MIN * nr_steps ? (double)run.largest : 0;
	}
	free(outside.group);
	free(forward.group);
	free(all.group);
	return bytes > 0 && varying >= VARYING_MIN * bytes;
}

bool forwardstacks_is_put_together(const struct replay_device *d, uint32_t group)
{
	uint32_t python_stack = books_group(d->process->books, group)->python_stack;
	struct sorted_groups all = { 0 };
	struct growing g;
	bool is = false;
	struct run run;

	sort_groups(&all, d, OF_ALL);
	for (uint32_t at = 0; next_run(&run, &all, d, &at);) {
		if (books_group(d->process->books, run.group[0])->python_stack != python_stack)
			continue;
		find_growing(&g, &run, d);
		is |= is_put_together(&g, d, &all, python_stack);
	}
	free(all.group);
	return is;
}
