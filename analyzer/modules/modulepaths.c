/* SPDX-License-Identifier: MIT */
/* Calls of modules on stacks, told apart by their order. */
#include "analyzer/modules/modulepaths.h"

#include <stdlib.h>

#include "analyzer/modules/modulenames.h"
#include "analyzer/recording/idtable.h"
#include "analyzer/ui/heap.h"

#define SHAPES_MAX 4 /* of one operation's results, or gradients */

/* A call that has not ended yet, as far as is known. */
struct open_call {
	uint32_t path, instance;
	int32_t first; /* position in the callee of its first allocation */
	uint32_t first_callee, first_stack; /* of that: the callee's frame, and the whole stack */
	uint32_t list; /* it has called a member of a list: the call's frame, the latest; 0 = it has not */
	struct modulecalls_key of_list; /* ... its calls */
};

struct direction {
	uint32_t stack; /* the latest with levels, 0 = none */
	uint32_t nr_open;
	struct open_call open[MODULELEVELS_MAX];
	uint32_t first_stack; /* of the innermost call; with what backward runs */
	uint32_t latest_stack;
	uint32_t shape[SHAPES_MAX]; /* that the innermost call has allocated, the first first */
	uint32_t nr_shapes;
	uint32_t nr_begun; /* backward passes, at the latest event */
};

struct modulepath_thread {
	struct direction *direction[3]; /* forward, backward, __init__ */
};

static const struct modulestack *stack_of(struct modulepaths *m, uint32_t stack)
{
	return modulestacks_get(&m->stacks, m->reader, stack);
}

static const struct sourceloops *loops_of(struct modulepaths *m, uint32_t frame)
{
	return modulestacks_loops(&m->stacks, m->reader, frame);
}

/* Do both frames, of one function, stand in one of its loops? -1: nobody knows. */
static int in_one_loop(struct modulepaths *m, uint32_t a, uint32_t b)
{
	const struct sourceloops *of_a = loops_of(m, a);
	struct sourceloops copy = of_a ? *of_a : (struct sourceloops){ 0 };
	const struct sourceloops *of_b = of_a ? loops_of(m, b) : NULL;

	return of_b ? sourceloops_common(&copy, of_b) != NULL : -1;
}

/*
 * The call at level `nr` goes round a loop that it began with. Were it a new one, it would look the same; that may be
 * where its own place is in a loop.
 */
static bool may_be_next(struct modulepaths *m, const struct modulestack *s, uint32_t nr)
{
	const struct sourceloops *loops = nr ? loops_of(m, s->level[nr].caller) : NULL;

	return !s->makes && (s->level[nr].indexed || (loops && loops->nr));
}

static struct modulecalls_key key_of(uint32_t owner_path, const struct modulelevel *l)
{
	return (struct modulecalls_key){ .owner_path = owner_path, .place = l->place, .branch = l->branch };
}

static struct modulecalls *place_of(const struct modulepaths *m, const struct direction *d, const struct modulestack *s,
				    uint32_t nr)
{
	return modulecalls_find(&m->calls, key_of(nr ? d->open[nr - 1].path : 0, &s->level[nr]));
}

/* Of the call at level `nr`, and of those that began with it. The innermost such; NULL: none. */
static struct modulecalls *note_looks_alike(struct modulepaths *m, const struct direction *d,
					    const struct modulestack *s, uint32_t nr)
{
	struct modulecalls *innermost = NULL;

	for (bool begins = true; begins; nr--) {
		struct modulecalls *c = may_be_next(m, s, nr) ? place_of(m, d, s, nr) : NULL;

		if (c)
			c->looks_alike = true;
		innermost = innermost ? innermost : c;
		begins = nr && d->open[nr - 1].first_stack == d->open[nr].first_stack;
	}
	return innermost;
}

/*
 * Members of a list that are called in a loop that their owner, at level nr - 1, began with: is it still the
 * same one?
 */
static void note_loop_of(struct modulepaths *m, const struct direction *d, const struct modulestack *s, uint32_t nr,
			 struct modulecalls *c)
{
	uint32_t caller = s->level[nr].caller;
	uint32_t first = nr ? modulestacks_frame_beside(m->reader, d->open[nr - 1].first_stack, caller) : 0;
	const struct modulecalls *outer;

	if (!first || s->level[nr - 1].sequence || in_one_loop(m, first, caller) != 1)
		return;
	outer = note_looks_alike(m, d, s, nr - 1);
	if (outer)
		c->outer = outer->key;
}

/* Has the owner allocated something else since the latest event in a call here? */
static bool is_apart(struct modulepaths *m, const struct direction *d, const struct modulelevel *l, uint32_t nr)
{
	const struct modulestack *before = d->stack ? stack_of(m, d->stack) : NULL;

	return before && (before->nr_levels <= nr || before->level[nr].place != l->place ||
			  before->level[nr].branch != l->branch);
}

static uint32_t number_of(struct modulepaths *m, const struct direction *d, const struct modulestack *s, uint32_t nr,
			  const struct open_call *owner, bool back)
{
	const struct modulelevel *l = &s->level[nr];
	const struct sequence *sequence = nr && s->level[nr - 1].sequence ? s->level[nr - 1].sequence : l->list;
	struct modulecalls *c = modulecalls_at(&m->calls, key_of(owner->path, l));
	const struct sourceloops *loops = NULL;

	if (!c)
		return 0;
	if (back)
		return modulecalls_number_back(c, owner->instance);
	if (c->instance == owner->instance && c->nr)
		c->apart |= is_apart(m, d, l, nr);
	if (l->indexed && !s->makes) {
		c->name = l->name;
		/* The program's own loops go over steps and batches, too; an nn.Sequential's own is no other's. */
		loops = nr && !s->level[nr - 1].sequence ? loops_of(m, l->caller) : NULL;
		if (c->instance == owner->instance && c->nr)
			note_loop_of(m, d, s, nr, c);
	}
	return modulecalls_number(c, owner->instance, sequence, l, loops);
}

static uint32_t enter(struct modulepaths *m, const struct direction *d, const struct modulestack *s, uint32_t nr,
		      const struct open_call *owner, bool back)
{
	const struct modulelevel *l = &s->level[nr];
	struct modulepath p = { .parent = owner->path, .name = l->name, .indexed = l->indexed, .by_class = l->by_class,
				.is_variable = l->is_variable };
	uint32_t number = number_of(m, d, s, nr, owner, back), path;

	if (l->site && l->site->nr_listed) {
		p.name = l->site->listed[number % l->site->nr_listed];
		p.indexed = false;
	} else if (l->site) {
		p.is_any = l->site->is_any;
		p.indexed &= !p.is_any;
		p.by_key = l->site->by_key;
	}
	p.index = p.indexed ? number : 0;
	if (*l->within)
		p.parent = modulenames_child(m, &(struct modulepath){ .parent = p.parent, .name = l->within });
	path = modulenames_child(m, &p);
	if (!*l->behind)
		return path;
	p = (struct modulepath){ .parent = path, .name = l->behind };
	return modulenames_child(m, &p);
}

/* The open calls go on: which of them have left the loop over the list that they have called from? */
static void note_left(struct modulepaths *m, const struct direction *d, const struct modulestack *s, uint32_t keep,
		      uint32_t stack)
{
	for (uint32_t nr = 0; nr < keep; nr++) {
		uint32_t list = d->open[nr].list, beside;
		const struct sourceloops *loops;
		struct sourceloops of_list;
		struct modulecalls *c;
		uint32_t at;

		if (!list || (nr + 1 < s->nr_levels && s->level[nr + 1].place == d->open[nr].of_list.place &&
			      s->level[nr + 1].branch == d->open[nr].of_list.branch))
			continue;
		c = modulecalls_find(&m->calls, d->open[nr].of_list);
		loops = loops_of(m, list);
		if (!c || !loops || !loops->nr || modulestacks_is_generator(m->reader, list))
			continue;
		of_list = *loops;
		at = modulecalls_list_loop(c, &of_list);
		beside = modulestacks_frame_beside(m->reader, stack, list);
		loops = beside ? loops_of(m, beside) : NULL;
		if (!loops || !sourceloops_have(loops, &of_list.loop[at]))
			c->left = true;
		else if (at && !sourceloops_have(loops, &of_list.loop[at - 1]))
			c->left_inner = true;
	}
}

/* Has the call at level `nr` come to a loop over modules? */
static bool is_in_loop(const struct direction *d, const struct modulestack *now, uint32_t nr)
{
	return d->open[nr].list || (nr + 1 < now->nr_levels && now->level[nr + 1].indexed);
}

/* In backward: has forward called more of the list that the call at level `nr` has come to than have come by? */
static bool has_more(const struct modulepaths *m, const struct direction *d, uint32_t nr)
{
	const struct modulecalls *c;

	if (!d->open[nr].list)
		return false;
	c = modulecalls_find(&m->calls, d->open[nr].of_list);
	return c && c->back_instance == d->open[nr].instance && c->nr_back < c->nr;
}

/*
 * Does the call at level `nr` of the latest event go on, though its frame stands elsewhere now? Forward goes
 * ahead, backward back, but for a loop: that goes the other way too. Where the source shows that no loop
 * holds both places, it is a new call. Of several modules the next begins with what this one began with:
 * forward stays behind that, backward goes on as long as more of the loop is to come. For a single one there
 * is no next: what the loop leaves out in its first round may come before where the call began.
 */
static bool goes_on(struct modulepaths *m, const struct direction *d, const struct modulestack *before,
		    const struct modulestack *now, uint32_t nr, bool back)
{
	const struct modulelevel *was = &before->level[nr], *is = &now->level[nr];
	struct modulecalls *c;
	int in_loop;

	if (was->caller != is->caller || was->code != is->code || was->position == is->position)
		return false;
	if (back ? is->position < was->position : is->position > was->position)
		return true;
	in_loop = in_one_loop(m, was->callee, is->callee);
	c = in_loop ? NULL : place_of(m, d, now, nr);
	if (c && !back && in_one_loop(m, is->callee, is->callee) == 1)
		c->apart = true; /* the loop that it begins with was seen to end */
	if (!in_loop || (in_loop < 0 && !is_in_loop(d, now, nr)))
		return false;
	if (back)
		return !is->indexed || has_more(m, d, nr) ||
		       (!is_in_loop(d, now, nr) && is->position < d->open[nr].first);
	if (is->position > d->open[nr].first)
		return true;
	if (in_loop > 0 && in_one_loop(m, d->open[nr].first_callee, is->callee) == 1)
		note_looks_alike(m, d, now, nr);
	return in_loop > 0 || !is->indexed;
}

/* Where the two stacks part, in one function: does it go the wrong way there, as only a new call of it does? */
static bool turns_back(const struct modulepaths *m, uint32_t before, uint32_t now, bool back)
{
	struct tfmt_frame f = { 0 }, g = { 0 }, x;
	uint32_t a = before, b = now;

	while (a != b && a >= TFMT_STACK_FIRST && b >= TFMT_STACK_FIRST) {
		if (!tfmt_reader_frame(m->reader, a > b ? a : b, &x) || x.parent >= (a > b ? a : b))
			return false;
		if (a > b) {
			f = x;
			a = x.parent;
		} else {
			g = x;
			b = x.parent;
		}
	}
	if (!modulestacks_is_python(&f) || !modulestacks_is_python(&g) || f.a != g.a)
		return false;
	return back ? g.b > f.b : g.b < f.b;
}

/*
 * May a loop have led from one place to the other, below the frame `callee` that both have? In the function
 * in which they part, or around a call on the way to it. -1: nobody knows.
 */
static int looped_back(struct modulepaths *m, uint32_t before, uint32_t now, uint32_t callee)
{
	struct tfmt_frame f;
	bool known = true;

	for (uint32_t id = now; id >= callee && id >= TFMT_STACK_FIRST; id = f.parent) {
		uint32_t beside = modulestacks_frame_beside(m->reader, before, id);
		int in_loop = beside ? in_one_loop(m, beside, id) : 0;

		if (in_loop > 0)
			return 1;
		known &= in_loop == 0;
		if (!tfmt_reader_frame(m->reader, id, &f) || f.parent >= id)
			break;
	}
	return known ? 0 : -1;
}

/* The same of a loop that is not the call's own, but that of a function it has called. */
static bool loops_on(struct modulepaths *m, const struct direction *d, const struct modulestack *now, uint32_t nr,
		     uint32_t stack, bool back)
{
	int looped = looped_back(m, d->stack, stack, now->level[nr].callee);
	uint32_t first = d->open[nr].first_stack;

	if (!looped || (looped < 0 && !is_in_loop(d, now, nr)))
		return false;
	if (!now->level[nr].indexed)
		return true;
	if (back)
		return has_more(m, d, nr);
	if (first != stack && !turns_back(m, first, stack, false))
		return true;
	if (looped > 0)
		note_looks_alike(m, d, now, nr);
	return looped > 0;
}

/*
 * The same call in the source as that of the latest event: has it been made again? What one operation allocates, it
 * allocates again then, from the beginning.
 */
static bool is_again(const struct direction *d, const struct modulelevel *innermost, const struct tfmt_event *ev,
		     bool back)
{
	if (!innermost->is_single)
		return false;
	if (!back)
		return d->nr_shapes && d->shape[0] == ev->shape;
	/*
	 * A chain of layers alike runs the same from call to call. The gradient of its input comes first, and
	 * again where it is added to another's: those of the parameters tell.
	 */
	if (d->first_stack != ev->python_stack)
		return false;
	for (uint32_t i = 1; i < d->nr_shapes && ev->shape; i++)
		if (d->shape[i] == ev->shape)
			return true;
	return d->latest_stack != ev->python_stack;
}

/* How many of the open calls go on. */
static uint32_t going_on(struct modulepaths *m, const struct direction *d, const struct modulestack *before,
			 const struct modulestack *now, uint32_t stack, const struct tfmt_event *ev, bool back)
{
	uint32_t nr = 0;

	while (nr < d->nr_open && nr < now->nr_levels && before->level[nr].callee == now->level[nr].callee)
		nr++;
	if (d->stack == stack)
		return nr == now->nr_levels && is_again(d, &now->level[nr - 1], ev, back) ? nr - 1 : nr;
	if (nr < d->nr_open && nr < now->nr_levels && before->level[nr].caller == now->level[nr].caller)
		return goes_on(m, d, before, now, nr, back) ? nr + 1 : nr;
	if (!nr || !turns_back(m, d->stack, stack, back) || loops_on(m, d, now, nr - 1, stack, back))
		return nr;
	return nr - 1;
}

/*
 * Has the open call at level `nr` called all that it has? That is, of an nn.Sequential: is what is called at the next
 * level none that its list still has, or in backward none that forward has called; while another of several is still to
 * come, or a single one was called again in forward.
 */
static bool has_ended(const struct modulepaths *m, const struct direction *d, const struct modulestack *now,
		      uint32_t nr, bool back)
{
	const struct modulelevel *is = &now->level[nr], *next = &now->level[nr + 1];
	struct modulecalls *c;
	bool has_ended;

	if (!is->sequence)
		return false;
	c = modulecalls_find(&m->calls, key_of(d->open[nr].path, next));
	if (!c || (back ? c->back_instance : c->instance) != d->open[nr].instance)
		return false;
	if (back)
		return c->nr_back >= c->nr && (is->indexed ? nr && has_more(m, d, nr - 1) : c->begins_again);
	has_ended = c->nr <= SEQUENCE_MAX &&
		    sequence_next(is->sequence, (int32_t)c->member[c->nr - 1], next->forward) == SEQUENCE_END;
	c->begins_again |= has_ended;
	return has_ended;
}

static struct direction *direction_of(struct modulepaths *m, uint32_t thread, int which)
{
	struct direction **d;

	m->thread = idtable_grown(m->thread, &m->nr_threads, thread, sizeof(*m->thread), m->reader);
	if (thread >= m->nr_threads)
		return NULL;
	d = &m->thread[thread].direction[which];
	if (!*d)
		*d = heap_alloc(1, sizeof(**d));
	return *d;
}

/* An allocation outside of any module: the calls of forward that were open have ended. */
static void end_calls(struct modulepaths *m, uint32_t thread)
{
	if (thread < m->nr_threads && m->thread[thread].direction[0])
		m->thread[thread].direction[0]->stack = m->thread[thread].direction[0]->nr_open = 0;
}

/* Is what an __init__ allocates itself a part of the module that is being made? Other classes have an __init__, too. */
static bool is_part(struct modulepaths *m, const struct direction *d, uint32_t stack)
{
	const struct modulestack *before = stack_of(m, d->stack), *s = stack_of(m, stack);

	return !s->by_itself || (before && before->nr_levels && before->level[0].caller == s->level[0].caller &&
				 before->level[0].code == s->level[0].code);
}

/*
 * How many levels can be told: of a call that one of several modules made, in a cycle whose beginning a flight recorder
 * dropped, nobody knows which of them it was. What is made in __init__ stays, and is there to be counted.
 */
static uint32_t known_levels(struct modulepaths *m, const struct modulestack *s, const struct tfmt_event *ev,
			     const struct lives_when *now)
{
	uint32_t nr = 0;

	if (ev->before)
		m->cut_cycle = now->nr_cycles + 1;
	if (s->makes || m->cut_cycle != now->nr_cycles + 1)
		return s->nr_levels;
	while (nr < s->nr_levels && !s->level[nr].indexed)
		nr++;
	return nr;
}

uint32_t modulepaths_next(struct modulepaths *m, const struct tfmt_event *ev, const struct lives_when *now)
{
	/* The program's own calls are numbered anew in each cycle: a loop over steps makes no further modules. */
	const struct open_call program = { .instance = now->nr_cycles };
	enum phase phase = (enum phase)now->phase;
	bool back = phase == PHASE_BACKWARD;
	uint32_t stack = back ? modulestacks_forward_part(m->reader, ev->python_stack) : ev->python_stack, keep = 0;
	const struct modulestack *s = stack_of(m, stack);
	struct direction *d;

	if (s && !s->nr_levels && !back)
		end_calls(m, ev->thread);
	if (!s || !s->nr_levels || phase == PHASE_OPTIMIZER)
		return 0;
	d = direction_of(m, ev->thread, s->makes ? 2 : back);
	if (!d)
		return 0;
	if (s->makes && !is_part(m, d, stack))
		return 0;
	if (d->nr_begun != now->nr_begun)
		d->stack = d->nr_open = 0;
	d->nr_begun = now->nr_begun;
	if (d->stack)
		keep = going_on(m, d, stack_of(m, d->stack), stack_of(m, stack), stack, ev, back);
	s = stack_of(m, stack);
	while (keep && keep < s->nr_levels && has_ended(m, d, s, keep - 1, back))
		keep--;
	if (!back && !s->makes)
		note_left(m, d, s, keep, stack);
	if (keep < s->nr_levels) {
		/* Of the next of a chain the first shape is known already. */
		d->nr_shapes = back && d->latest_stack == ev->python_stack && d->first_stack == ev->python_stack;
		d->first_stack = ev->python_stack;
	}
	if (d->nr_shapes < SHAPES_MAX)
		d->shape[d->nr_shapes++] = ev->shape;
	d->latest_stack = ev->python_stack;
	for (d->nr_open = keep; d->nr_open < s->nr_levels; d->nr_open++) {
		const struct open_call *owner = d->nr_open ? &d->open[d->nr_open - 1] : &program;

		d->open[d->nr_open].path = enter(m, d, s, d->nr_open, owner, back);
		d->open[d->nr_open].instance = ++m->nr_instances;
		d->open[d->nr_open].first = s->level[d->nr_open].position;
		d->open[d->nr_open].first_callee = s->level[d->nr_open].callee;
		d->open[d->nr_open].first_stack = stack;
		d->open[d->nr_open].list = 0;
		if (d->nr_open && s->level[d->nr_open].indexed) {
			d->open[d->nr_open - 1].list = s->level[d->nr_open].caller;
			d->open[d->nr_open - 1].of_list = key_of(owner->path, &s->level[d->nr_open]);
		}
	}
	d->stack = stack;
	keep = known_levels(m, s, ev, now);
	return keep ? d->open[keep - 1].path : 0;
}

void modulepaths_release(struct modulepaths *m)
{
	for (uint32_t i = 0; i < m->nr_threads; i++)
		for (int k = 0; k < 3; k++)
			free(m->thread[i].direction[k]);
	modulestacks_release(&m->stacks);
	free(m->thread);
	modulecalls_release(&m->calls);
	free(m->settled);
	free(m->slot);
	free(m->path);
	*m = (struct modulepaths){ .reader = m->reader };
}

uint32_t modulepaths_call(struct modulepaths *m, uint32_t stack, uint32_t depth)
{
	const struct modulestack *s = stack_of(m, stack);

	return s && !s->makes && depth && depth <= s->nr_levels ? s->level[depth - 1].caller : 0;
}
