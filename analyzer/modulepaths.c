/* SPDX-License-Identifier: MIT */
/* Calls of modules on stacks, told apart by their order. */
#include "analyzer/modulepaths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/idtable.h"

#define SHAPES_MAX 4 /* of one operation's results, or gradients */

/* A call that has not ended yet, as far as is known. */
struct open_call {
	uint32_t path, instance;
	int32_t first; /* position in the callee of its first allocation */
	uint32_t first_stack; /* of that */
	uint32_t list; /* it has called a member of a list: the call's frame, the latest; 0 = it has not */
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

/* Calls at one place within one call of the owner. */
struct modulepath_calls {
	uint32_t owner_path, caller, callee_code; /* caller 0 = empty */
	uint32_t instance, nr;           /* of forward or __init__: in the latest call of the owner */
	uint32_t back_instance, nr_back; /* of backward */
	uint8_t member[SEQUENCE_MAX];    /* of a sequence: the number of the member that each call was of */
};

static const struct modulestack *stack_of(struct modulepaths *m, uint32_t stack)
{
	return modulestacks_get(&m->stacks, m->reader, stack);
}

/* ---- paths ------------------------------------------------------------------------------------- */

static size_t name_len(const struct modulepath *p)
{
	return p->by_class ? strcspn(p->name, ".") : strlen(p->name);
}

static bool same_path(const struct modulepath *a, const struct modulepath *b)
{
	return a->parent == b->parent && a->index == b->index && a->indexed == b->indexed && a->by_class == b->by_class &&
	       (a->name == b->name || !strcmp(a->name, b->name));
}

static uint32_t *path_slot(const struct modulepaths *m, const struct modulepath *p)
{
	uint64_t hash = p->parent * 0x9e3779b97f4a7c15ull ^ p->index;
	uint32_t i;

	for (const char *c = p->name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 0x100000001b3ull;
	i = (uint32_t)(hash >> 32 ^ hash) & (m->slots_room - 1);
	while (m->slot[i] && !same_path(&m->path[m->slot[i] - 1], p))
		i = (i + 1) & (m->slots_room - 1);
	return &m->slot[i];
}

static bool paths_grow(struct modulepaths *m)
{
	uint32_t room = m->slots_room ? 2 * m->slots_room : 256, *slot = calloc(room, sizeof(*slot));
	struct modulepath *path = realloc(m->path, room / 2 * sizeof(*path));

	if (path)
		m->path = path;
	if (!slot || !path) {
		free(slot);
		return false;
	}
	m->paths_room = room / 2;
	free(m->slot);
	m->slot = slot;
	m->slots_room = room;
	for (uint32_t i = 0; i < m->nr_paths; i++)
		*path_slot(m, &m->path[i]) = i + 1;
	return true;
}

/* The path one module further in; the parent itself when memory runs out. */
static uint32_t path_child(struct modulepaths *m, const struct modulepath *p)
{
	uint32_t *slot;

	if (m->nr_paths == m->paths_room && !paths_grow(m))
		return p->parent;
	slot = path_slot(m, p);
	if (!*slot) {
		m->path[m->nr_paths++] = *p;
		*slot = m->nr_paths;
	}
	return *slot;
}

/* ---- calls ------------------------------------------------------------------------------------- */

static struct modulepath_calls *calls_slot(const struct modulepaths *m, uint32_t owner, uint32_t caller, uint32_t code)
{
	uint64_t hash = (owner * 0x9e3779b97f4a7c15ull ^ caller) * 0xff51afd7ed558ccdull ^ code;
	uint32_t i = (uint32_t)((hash * 0xc4ceb9fe1a85ec53ull) >> 32) & (m->calls_room - 1);

	while (m->calls[i].caller && (m->calls[i].owner_path != owner || m->calls[i].caller != caller ||
				       m->calls[i].callee_code != code))
		i = (i + 1) & (m->calls_room - 1);
	return &m->calls[i];
}

static bool calls_grow(struct modulepaths *m)
{
	struct modulepath_calls *old = m->calls;
	uint32_t nr = m->calls_room, room = nr ? 2 * nr : 256;
	struct modulepath_calls *calls = calloc(room, sizeof(*calls));

	if (!calls)
		return false;
	m->calls = calls;
	m->calls_room = room;
	for (uint32_t i = 0; i < nr; i++)
		if (old[i].caller)
			*calls_slot(m, old[i].owner_path, old[i].caller, old[i].callee_code) = old[i];
	free(old);
	return true;
}

/* Of which member of the owner's sequence the k-th call is: some of them may not have been seen. */
static uint32_t member_called(struct modulepath_calls *c, uint32_t k, const struct sequence *sequence,
			      const struct modulelevel *l, bool back)
{
	int32_t next;

	if (!sequence || k >= SEQUENCE_MAX)
		return k;
	if (!back) {
		next = sequence_next(sequence, k ? c->member[k - 1] : -1, l->forward);
		c->member[k] = next < 0 ? (uint8_t)k : (uint8_t)next;
	}
	return c->member[k];
}

/* The number of a new call at this place within its owner's, which is (`sequence`) an nn.Sequential of known members. */
static uint32_t number_call(struct modulepaths *m, const struct open_call *owner, const struct sequence *sequence,
			    const struct modulelevel *l, bool back)
{
	/* Members of different classes are called at one place: they count together. */
	struct modulepath_calls *c;

	if (2 * m->nr_calls >= m->calls_room && !calls_grow(m))
		return 0;
	c = calls_slot(m, owner->path, l->caller, 0);
	if (!c->caller) {
		*c = (struct modulepath_calls){ .owner_path = owner->path, .caller = l->caller };
		m->nr_calls++;
	}
	if (!back) {
		c->nr = c->instance == owner->instance ? c->nr + 1 : 1;
		c->instance = owner->instance;
		return member_called(c, c->nr - 1, sequence, l, back);
	}
	c->nr_back = c->back_instance == owner->instance ? c->nr_back + 1 : 1;
	c->back_instance = owner->instance;
	return member_called(c, c->nr > c->nr_back ? c->nr - c->nr_back : 0, sequence, l, back);
}

static uint32_t enter(struct modulepaths *m, const struct open_call *owner, const struct sequence *sequence,
		      const struct modulelevel *l, bool back)
{
	struct modulepath p = { .parent = owner->path, .name = l->name, .indexed = l->indexed, .by_class = l->by_class,
				.is_variable = l->is_variable };
	uint32_t number = number_call(m, owner, sequence, l, back), path;

	p.index = l->indexed ? number : 0;
	path = path_child(m, &p);
	if (!*l->behind)
		return path;
	p = (struct modulepath){ .parent = path, .name = l->behind };
	return path_child(m, &p);
}

/* Has the call at level `nr` come to a loop over modules? */
static bool is_in_loop(const struct direction *d, const struct modulestack *now, uint32_t nr)
{
	return d->open[nr].list || (nr + 1 < now->nr_levels && now->level[nr + 1].indexed);
}

/* In backward: has forward called more of the list that the call at level `nr` has come to than have come by? */
static bool has_more(const struct modulepaths *m, const struct direction *d, uint32_t nr)
{
	const struct modulepath_calls *c;

	if (!d->open[nr].list)
		return false;
	c = calls_slot(m, d->open[nr].path, d->open[nr].list, 0);
	return c->caller && c->back_instance == d->open[nr].instance && c->nr_back < c->nr;
}

/*
 * Does the call at level `nr` of the latest event go on, though its frame stands elsewhere now? Forward goes ahead,
 * backward back, but for a loop over modules: that goes the other way too. Of several modules the next begins with what
 * this one began with: forward stays behind that, backward goes on as long as more of the loop is to come. For a single
 * one there is no next: what the loop leaves out in its first round may come before where the call began.
 */
static bool goes_on(const struct modulepaths *m, const struct direction *d, const struct modulestack *before,
		    const struct modulestack *now, uint32_t nr, bool back)
{
	const struct modulelevel *was = &before->level[nr], *is = &now->level[nr];

	if (was->caller != is->caller || was->code != is->code || was->position == is->position)
		return false;
	if (back ? is->position < was->position : is->position > was->position)
		return true;
	if (!is_in_loop(d, now, nr))
		return false;
	if (!is->indexed)
		return true;
	return back ? has_more(m, d, nr) : is->position > d->open[nr].first;
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

/* The same of a loop that is not the call's own, but that of a function it has called. */
static bool loops_on(const struct modulepaths *m, const struct direction *d, const struct modulestack *now, uint32_t nr,
		     uint32_t stack, bool back)
{
	uint32_t first = d->open[nr].first_stack;

	if (!is_in_loop(d, now, nr))
		return false;
	if (!now->level[nr].indexed)
		return true;
	return back ? has_more(m, d, nr) : first != stack && !turns_back(m, first, stack, false);
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
	 * A chain of layers alike runs the same from call to call. The gradient of its input comes first, and again where
	 * it is added to another's: those of the parameters tell.
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
 * Has the open call at level `nr` called all that it has? That is, of several that are each an nn.Sequential: is what is
 * called at the next level none that its list still has, or in backward none that forward has called, while another of
 * the several is still to come.
 */
static bool has_ended(const struct modulepaths *m, const struct direction *d, const struct modulestack *now, uint32_t nr,
		      bool back)
{
	const struct modulelevel *is = &now->level[nr], *next = &now->level[nr + 1];
	const struct modulepath_calls *c;

	if (!is->indexed || !is->sequence)
		return false;
	c = calls_slot(m, d->open[nr].path, next->caller, 0);
	if (!c->caller || (back ? c->back_instance : c->instance) != d->open[nr].instance)
		return false;
	if (back)
		return nr && c->nr_back >= c->nr && has_more(m, d, nr - 1);
	return c->nr <= SEQUENCE_MAX && sequence_next(is->sequence, c->member[c->nr - 1], next->forward) < 0;
}

static struct direction *direction_of(struct modulepaths *m, uint32_t thread, int which)
{
	struct direction **d;

	m->thread = idtable_grown(m->thread, &m->nr_threads, thread, sizeof(*m->thread), m->reader);
	if (thread >= m->nr_threads)
		return NULL;
	d = &m->thread[thread].direction[which];
	if (!*d)
		*d = calloc(1, sizeof(**d));
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
		const struct sequence *sequence = d->nr_open ? s->level[d->nr_open - 1].sequence : NULL;

		d->open[d->nr_open].path = enter(m, owner, sequence, &s->level[d->nr_open], back);
		d->open[d->nr_open].instance = ++m->nr_instances;
		d->open[d->nr_open].first = s->level[d->nr_open].position;
		d->open[d->nr_open].first_stack = stack;
		d->open[d->nr_open].list = 0;
		if (d->nr_open && s->level[d->nr_open].indexed)
			d->open[d->nr_open - 1].list = s->level[d->nr_open].caller;
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
	free(m->calls);
	free(m->slot);
	free(m->path);
	*m = (struct modulepaths){ .reader = m->reader };
}

uint32_t modulepaths_call(struct modulepaths *m, uint32_t stack, uint32_t depth)
{
	const struct modulestack *s = stack_of(m, stack);

	return s && !s->makes && depth && depth <= s->nr_levels ? s->level[depth - 1].caller : 0;
}

uint32_t modulepaths_depth(const struct modulepaths *m, uint32_t path)
{
	uint32_t depth = 0;

	for (; path; path = m->path[path - 1].parent)
		depth++;
	return depth;
}

uint32_t modulepaths_ancestor(const struct modulepaths *m, uint32_t path, uint32_t depth)
{
	uint32_t own = modulepaths_depth(m, path);

	for (; own > depth; own--)
		path = m->path[path - 1].parent;
	return path;
}

const char *modulepaths_text(const struct modulepaths *m, uint32_t path, uint32_t from, char *buf, size_t size)
{
	uint32_t depth = modulepaths_depth(m, path);
	size_t used = 0;

	*buf = 0;
	for (uint32_t i = from + 1; i <= depth && used < size; i++) {
		const struct modulepath *p = &m->path[modulepaths_ancestor(m, path, i) - 1];
		const char *dot = used ? "." : "";

		if (p->by_class)
			used += (size_t)snprintf(buf + used, size - used, "%s<%.*s>", dot, (int)name_len(p), p->name);
		else if (*p->name)
			used += (size_t)snprintf(buf + used, size - used, "%s%s", dot, p->name);
		if (p->indexed && used < size)
			used += (size_t)snprintf(buf + used, size - used, "%s%u", used ? "." : "", p->index);
	}
	return buf;
}
