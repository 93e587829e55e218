/* SPDX-License-Identifier: MIT */
/* Causes of growth: stacks of one place taken together, and what the blocks are that outlive their step. */
#include "analyzer/growth/stepcauses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/forwardstacks.h"
#include "analyzer/growth/growth_thresholds.h"
#include "analyzer/growth/stepplaces.h"
#include "analyzer/patterns/keptgraph.h"
#include "analyzer/patterns/kvcache.h"
#include "analyzer/patterns/shapecache.h"


/* The cycle that an event lies in. Unlike lives_when.nr_cycles, a batch counts with the forward that it is for. */
static uint32_t cycle_of(const struct stepcauses *c, uint64_t ordinal)
{
	return steps_begun(&c->process->lives->steps.cycles, ordinal);
}

/* ---- one graph ------------------------------------------------------------------------------- */

/* Cycles in whose forward a block was born that stays, and what it left there. */
struct graph_cycle {
	uint32_t nr_blocks;
	uint32_t first, last; /* forward's allocations before the first and before the last of them */
	bool is_after;       /* some by lines after the optimizer's call */
};

static bool is_after_update(const struct life *life, const struct steps *s)
{
	return updatesites_order(&s->sites, s->reader, life->birth.stack) > 0;
}

/* What is made without a node after the optimizer's call is a batch only of a forward that is run there, too. */
static bool may_be_in_graph(const struct life *life, const struct steps *s, const struct graph_cycle *cycle)
{
	return life->birth.phase != PHASE_BACKWARD && life->birth.phase != PHASE_OPTIMIZER && cycle->nr_blocks &&
	       (life->flags & TFMT_FLAG_FORWARD || cycle->is_after || !is_after_update(life, s));
}

/* How many of a place's blocks are from cycles in which forward has left something. */
static size_t nr_in_cycles(const struct stepplace *p, const struct stepcauses *c, const struct graph_cycle *cycle)
{
	size_t nr = 0;

	for (size_t i = 0; i < p->nr_kept; i++)
		nr += may_be_in_graph(&p->kept[i], &c->process->lives->steps,
				      &cycle[cycle_of(c, p->kept[i].birth.ordinal)]);
	return nr;
}

static void add_to_cycle(struct graph_cycle *cycle, const struct life *life)
{
	if (!cycle->nr_blocks++)
		cycle->first = life->birth.nr_forwards;
	cycle->first = life->birth.nr_forwards < cycle->first ? life->birth.nr_forwards : cycle->first;
	cycle->last = life->birth.nr_forwards > cycle->last ? life->birth.nr_forwards : cycle->last;
}

static bool is_graph(const struct graph_cycle *cycle, uint32_t nr_cycles)
{
	struct keptgraph g = { 0 };

	for (uint32_t i = 0; i < nr_cycles; i++)
		keptgraph_add_step(&g, cycle[i].nr_blocks, cycle[i].first, cycle[i].last);
	return keptgraph_is(&g);
}

/* Mark the places whose blocks one graph keeps. Returns how many. */
static uint32_t find_graph(struct stepplaces *f, const struct stepcauses *c)
{
	uint32_t nr_cycles = c->process->lives->steps.cycles.nr_bounds + 1;
	struct graph_cycle *of_forward = heap_alloc(nr_cycles, sizeof(*of_forward));
	struct graph_cycle *all = heap_alloc(nr_cycles, sizeof(*all));
	uint32_t nr = 0, nr_hooked = 0;

	for (uint32_t i = 0; i < f->nr; i++)
		for (size_t k = 0; k < f->place[i].nr_kept; k++) {
			const struct life *life = &f->place[i].kept[k];
			struct graph_cycle *cycle = &of_forward[cycle_of(c, life->birth.ordinal)];

			if (!(life->flags & TFMT_FLAG_FORWARD))
				continue;
			add_to_cycle(cycle, life);
			cycle->is_after |= is_after_update(life, &c->process->lives->steps);
		}
	for (uint32_t i = 0; i < f->nr; i++) {
		struct stepplace *p = &f->place[i];

		p->in_graph = p->nr_kept && p->kind == FRAME_PLAIN &&
			      (double)nr_in_cycles(p, c, of_forward) >= SAME_STEPS_MIN * (double)p->nr_kept;
		nr += p->in_graph;
		nr_hooked += p->in_graph && (p->is_hooked || p->module == FRAME_HOOKED);
		for (size_t k = 0; p->in_graph && k < p->nr_kept; k++)
			add_to_cycle(&all[cycle_of(c, p->kept[k].birth.ordinal)], &p->kept[k]);
	}
	if (nr_hooked == nr || !is_graph(all, nr_cycles)) /* a graph has also what is made elsewhere */
		nr = 0;
	for (uint32_t i = 0; i < f->nr && !nr; i++)
		f->place[i].in_graph = false;
	free(of_forward);
	free(all);
	return nr;
}

/* The first block of a place that has a node and was born in a cycle after `cycle` (-1: in any). NULL: none. */
static const struct life *first_node(const struct stepplace *p, const struct stepcauses *c, int64_t cycle)
{
	for (size_t i = 0; p->in_graph && i < p->nr_kept; i++)
		if ((p->kept[i].flags & TFMT_FLAG_FORWARD) && cycle_of(c, p->kept[i].birth.ordinal) > cycle)
			return &p->kept[i];
	return NULL;
}

/*
 * The place that made the graph's last result: what the program holds on to, as far as that is seen. Of the first graph:
 * the last may not be whole, and what is made after a backward pass lies in the cycle of the next.
 */
static uint32_t graph_root(const struct stepplaces *f, const struct stepcauses *c)
{
	const struct life *first = NULL, *next;
	uint64_t end = TFMT_NO_ORDINAL, latest = 0;
	uint32_t begins = 0, root = 0;

	for (uint32_t i = 0; i < f->nr; i++) {
		const struct life *node = first_node(&f->place[i], c, -1);

		if (node && (!first || node->birth.ordinal < first->birth.ordinal)) {
			first = node;
			begins = i;
		}
	}
	if (!first)
		return 0;
	next = first_node(&f->place[begins], c, cycle_of(c, first->birth.ordinal));
	if (next)
		end = next->birth.ordinal;
	for (uint32_t i = 0; i < f->nr; i++) {
		const struct stepplace *p = &f->place[i];

		for (size_t k = 0; p->in_graph && k < p->nr_kept; k++) {
			uint64_t born = p->kept[k].birth.ordinal;

			if ((p->kept[k].flags & TFMT_FLAG_FORWARD) && born < end && born >= latest) {
				latest = born;
				root = i;
			}
		}
	}
	return root;
}

/* ---- causes ---------------------------------------------------------------------------------- */

/* Has nearly each block that stays a shape of its own? */
static bool is_one_per_shape(const struct stepplace *p, const struct stepcauses *c)
{
	struct shapecache cache = { 0 };

	for (size_t i = 0; i < p->nr_kept; i++) {
		const struct life *life = &p->kept[i];
		uint32_t step = c->is_stepless ? (uint32_t)i : steps_of(&c->process->lives->steps, life->birth.ordinal);

		shapecache_add(&cache, books_group(c->books, life->group)->shape, step);
	}
	return shapecache_close(&cache);
}

/* Have most of a place's blocks been there at the last reading but one? What gets longer is made anew, a pool's entries stay. */
static bool are_mostly_old(const struct stepplace *p, const struct stepcauses *c)
{
	uint64_t before = c->series->sample[c->nr_readings - 2].taken;
	size_t nr = 0;

	for (size_t i = 0; i < p->nr_kept; i++)
		nr += p->kept[i].birth.ordinal < before;
	return 2 * (double)nr > p->blocks[c->nr_readings - 1];
}

/*
 * As many blocks as before, and in each step larger ones. Batches of varying size are smaller now and then. A part of the
 * program's work may end where a block's successor is there already: such readings are passed over, if they are few; and it may be too
 * short for a step.
 */
static bool is_sequence(const struct stepplace *p, const struct stepcauses *c, const struct growth *g)
{
	size_t nr = c->nr_readings, first = g->nr_warm_up, last, nr_equal = 1;

	if (c->is_stepless)
		while (nr > 1 && p->blocks[nr - 1] > p->blocks[nr - 2])
			nr--;
	while (first < nr && p->blocks[first] != p->blocks[nr - 1]) /* before it was made, layer by layer */
		first++;
	if (first >= nr || (!c->is_stepless && are_mostly_old(p, c)))
		return false;
	last = first;
	for (size_t i = first + 1; i < nr; i++) {
		if (c->is_stepless && p->blocks[i] > p->blocks[last])
			continue;
		if (p->blocks[i] != p->blocks[last] || p->asked[i] < p->asked[last] ||
		    (p->asked[i] == p->asked[last] && !c->is_stepless))
			return false;
		last = i;
		nr_equal++;
	}
	return p->blocks[last] > 0 && nr_equal >= SEQUENCE_READINGS_MIN &&
	       (double)nr_equal >= SAME_STEPS_MIN * (double)(nr - first);
}

/* Do blocks that outlived a whole step account for the growth? Else it is chance in what each step allocates anew. */
static bool accumulates(const struct stepplace *p, const struct stepcauses *c)
{
	uint64_t before = c->series->sample[c->nr_readings - 2].taken;
	double bytes = 0;

	for (size_t i = 0; i < p->nr_kept; i++)
		if (p->kept[i].birth.ordinal < before)
			bytes += (double)p->kept[i].size;
	return bytes >= ACCUMULATED_MIN * (p->bytes[c->nr_readings - 1] - p->bytes[0]);
}

/*
 * Has a place ever more blocks, and never fewer? Each step may make all of them anew: what hooks have stored that pile up is
 * replaced at each call, but there are more of them. Gradients are more where more layers are trained.
 */
static bool multiplies(const struct stepplace *p, const struct stepcauses *c)
{
	uint8_t phase = books_group(c->books, p->group)->phase;
	size_t rises = 0;

	if (phase == PHASE_BACKWARD || phase == PHASE_OPTIMIZER)
		return false;
	for (size_t i = 1; i < c->nr_readings; i++) {
		if (p->blocks[i] < p->blocks[i - 1])
			return false;
		rises += p->blocks[i] > p->blocks[i - 1];
	}
	return rises >= RISES_MIN;
}

/*
 * Has a place as many blocks in the end as it had before the last third of the readings? Then those that stay took the places of
 * others: a pool that is full, whose entries are replaced by larger ones. Amid a step there are others as well.
 */
static bool takes_places(const struct stepplace *p, const struct stepcauses *c)
{
	size_t last = c->nr_readings - 1;
	double most = 0;

	for (size_t i = 0; i <= last * 2 / 3; i++)
		most = fmax(most, p->blocks[i]);
	return p->blocks[last] <= most;
}

static enum stepgrowth_class class_of(const struct stepplace *p, const struct stepcauses *c, bool is_longer)
{
	if (!p->tensor)
		return c->device == GROUP_HOST ? STEPGROWTH_HOST : STEPGROWTH_DRIVER;
	if (is_longer)
		return STEPGROWTH_SEQUENCE;
	if (p->kind != FRAME_PLAIN)
		return p->kind == FRAME_HOOK ? STEPGROWTH_HOOK : STEPGROWTH_CONTEXT;
	if (p->is_hooked)
		return STEPGROWTH_HOOK;
	if (p->nr_kept && OF_FORWARD_PART * p->nr_forward >= p->nr_kept)
		return STEPGROWTH_GRAPH_TENSORS;
	/* An optimizer's state has as many shapes as its parameters. */
	return books_group(c->books, p->group)->phase != PHASE_OPTIMIZER && is_one_per_shape(p, c) ? STEPGROWTH_SHAPES : STEPGROWTH_TENSORS;
}

/* What grows in length: keys and values? */
static bool is_kv_cache(const struct stepplace *p, const struct stepcauses *c)
{
	struct tfmt_shape shape;

	return tfmt_reader_shape(c->process->reader, books_group(c->books, p->group)->shape, &shape) &&
	       kvcache_is((uint64_t)p->blocks[c->nr_readings - 1], shape.nr_dims);
}

static enum verdict verdict_of(enum stepgrowth_class class, const struct stepplace *p, const struct stepcauses *c)
{
	switch (class) {
	case STEPGROWTH_GRAPH:
		return VERDICT_GRAPH_RETENTION;
	case STEPGROWTH_SEQUENCE:
		return is_kv_cache(p, c) ? VERDICT_KV_CACHE : VERDICT_LEAK;
	case STEPGROWTH_DRIVER:
		return VERDICT_NON_TORCH;
	default:
		return VERDICT_LEAK;
	}
}

/* The first step that left something behind. */
static uint32_t first_step(const struct growth *g, const struct growth_reading *r, size_t nr)
{
	size_t i = g->nr_warm_up;

	/* A first reading of about one step's growth is the first step's; so is a break that grows like that. */
	if (i && fabs(r[i].bytes - r[i - 1].bytes) <= FIRST_STEP_TIMES * g->slope * (r[i].step - r[i - 1].step))
		i--;
	if (!i && r[0].step > 0 && r[0].bytes > 0 && r[0].bytes <= FIRST_STEP_TIMES * g->slope * r[0].step)
		return 1;
	while (i + 1 < nr && r[i + 1].bytes <= r[i].bytes)
		i++;
	return (uint32_t)r[i].step + 1;
}

/*
 * The step that made the first of the blocks that stay, if it is one of the two before `step`: a reading holds what its
 * step is at, too, and may seem to be where it began.
 */
static uint32_t first_step_kept(const struct stepplace *p, const struct stepcauses *c, uint32_t step)
{
	uint64_t first = TFMT_NO_ORDINAL;
	uint32_t born;

	for (size_t i = 0; i < p->nr_kept; i++)
		first = p->kept[i].birth.ordinal < first ? p->kept[i].birth.ordinal : first;
	born = first == TFMT_NO_ORDINAL ? step : steps_of(&c->process->lives->steps, first) + 1;
	return born < step && step - born <= FIRST_STEP_EARLIER ? born : step;
}

/* Without steps: the reading after which it grows. */
static double first_reading(const struct growth *g, const struct growth_reading *r, size_t nr)
{
	size_t i = g->nr_warm_up;

	while (i + 1 < nr && r[i + 1].bytes <= r[i].bytes)
		i++;
	return r[i].step;
}

/* Of the blocks that stay, those that one line has freed later, if they are most (the vote of Boyer and Moore). */
static void find_freed(struct stepgrowth_cause *cause, const struct stepplace *p)
{
	uint32_t stack = 0, nr = 0;

	for (size_t i = 0, votes = 0; i < p->nr_kept; i++) {
		const struct lives_when *death = &p->kept[i].death;
		uint32_t of = death->ordinal == TFMT_NO_ORDINAL ? 0 : death->stack;

		if (!votes)
			stack = of;
		votes += of == stack ? 1 : -1ul;
	}
	for (size_t i = 0; i < p->nr_kept; i++)
		nr += p->kept[i].death.ordinal != TFMT_NO_ORDINAL && p->kept[i].death.stack == stack;
	if (stack < TFMT_STACK_FIRST || nr < FREED_MIN || FREED_PART * nr < p->nr_kept)
		return;
	cause->nr_freed = nr;
	cause->freed_stack = stack;
}

/*
 * Of the blocks' bytes, or, where these do not show it or few blocks get larger, which leaves much to rounding, of what
 * was asked for. The readings are left in r.
 */
static void growth_of(struct stepgrowth_cause *cause, struct growth_reading *r, const struct stepgrowth *g,
		      const struct stepcauses *c, const struct stepplace *p)
{
	for (size_t i = 0; i < c->nr_readings; i++)
		r[i] = (struct growth_reading){ g->reading[i].step, p->bytes[i] };
	growth_find(&cause->growth, r, c->nr_readings, NAN);
	if (cause->growth.shape >= GROWTH_STEADY && !(p->tensor && is_sequence(p, c, &cause->growth)))
		return;
	for (size_t i = 0; i < c->nr_readings; i++)
		r[i].bytes = p->asked[i];
	growth_find(&cause->growth, r, c->nr_readings, NAN);
}

static void cause_of(struct stepgrowth *g, const struct stepcauses *c, const struct stepplace *p, bool is_graph_cause,
		     uint32_t nr_places)
{
	struct stepgrowth_cause *cause = &g->cause[g->nr_causes];
	const struct group *group = books_group(c->books, p->group);
	struct growth_reading r[STEPSAMPLES_MAX];
	bool is_longer;

	*cause = (struct stepgrowth_cause){ .group = p->group, .nr_places = nr_places };
	growth_of(cause, r, g, c, p);
	is_longer = p->tensor && is_sequence(p, c, &cause->growth);
	if (p->tensor && !is_longer && g->by != STEPGROWTH_BY_EVENTS && takes_places(p, c))
		return;
	if (p->tensor && !is_longer && !accumulates(p, c) && !multiplies(p, c))
		return;
	cause->class = is_graph_cause ? STEPGROWTH_GRAPH : class_of(p, c, is_longer);
	cause->verdict = verdict_of(cause->class, p, c);
	cause->owner = group->tensor ? OWNER_TORCH : books_group_owner(c->books, group);
	cause->last_bytes = r[c->nr_readings - 1].bytes;
	cause->grown_bytes = cause->last_bytes - r[cause->growth.nr_warm_up].bytes;
	if (c->is_stepless)
		cause->first = first_reading(&cause->growth, r, c->nr_readings);
	else
		cause->first_step = first_step_kept(p, c, first_step(&cause->growth, r, c->nr_readings));
	for (size_t i = 1; i < c->nr_readings; i++) {
		cause->nr_rises += r[i].bytes > r[i - 1].bytes;
		cause->nr_since += cause->nr_rises != 0;
	}
	cause->nr_kept = (uint32_t)p->nr_kept;
	if (p->tensor && !p->nr_kept && cause->class != STEPGROWTH_SEQUENCE)
		cause->nr_anew = (uint32_t)p->blocks[c->nr_readings - 1];
	cause->in_module = p->tensor && p->module != FRAME_NO_MODULE;
	cause->has_hook = p->kind == FRAME_PLAIN && p->is_hooked;
	cause->makes_nodes = p->nr_kept && OF_FORWARD_PART * p->nr_forward >= p->nr_kept;
	if (cause->class != STEPGROWTH_SEQUENCE)
		find_freed(cause, p);
	g->nr_causes++;
}

/* All places of the graph as one cause, in the name of its root. */
static void graph_cause(struct stepgrowth *g, const struct stepcauses *c, struct stepplaces *f)
{
	uint32_t root = graph_root(f, c), nr = 0;
	struct stepplace *all = heap_alloc(1, sizeof(*all));

	*all = (struct stepplace){ .tensor = true, .group = f->place[root].group };
	for (uint32_t i = 0; i < f->nr; i++) {
		if (!f->place[i].in_graph)
			continue;
		nr++;
		for (size_t k = 0; k < c->nr_readings; k++) {
			all->bytes[k] += f->place[i].bytes[k];
			all->blocks[k] += f->place[i].blocks[k];
			all->asked[k] += f->place[i].asked[k];
		}
		for (size_t k = 0; k < f->place[i].nr_kept; k++)
			stepplaces_keep(all, &f->place[i].kept[k]);
	}
	cause_of(g, c, all, true, nr);
	free(all->kept);
	free(all);
}

/* How many blocks live at the end of what a place has held? */
static uint64_t nr_live(const struct stepcauses *c, const struct stepplaces *f, uint32_t group)
{
	uint32_t place = f->of_stack[c->of_group[group]];
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < books_nr_groups(c->books); i++)
		if (c->of_group[i] != UINT32_MAX && f->of_stack[c->of_group[i]] == place)
			blocks += books_group(c->books, i)->live.blocks;
	return blocks;
}

/* What gets longer is no growth where the batch does, or where it was let go in the end. */
static void find_ends(struct stepgrowth *g, const struct stepcauses *c, const struct stepplaces *f)
{
	bool is_any = false, follow = false, is_kept_on = false;

	for (size_t i = 0; i < g->nr_causes; i++)
		is_any |= g->cause[i].class == STEPGROWTH_SEQUENCE;
	if (is_any && !c->is_stepless)
		follow = forwardstacks_follow_batch(c->of, g->nr_steps);
	for (size_t i = 0; i < g->nr_causes; i++) {
		struct stepgrowth_cause *cause = &g->cause[i];

		if (cause->class != STEPGROWTH_SEQUENCE)
			continue;
		if (follow)
			is_kept_on = forwardstacks_is_put_together(c->of, cause->group);
		cause->follows_batch = follow && !is_kept_on;
		cause->nr_live = nr_live(c, f, cause->group);
		/* A failure lets go of it, too. */
		cause->is_let_go = c->is_stepless && !cause->nr_live && !books_device(c->books, c->device)->tensor_ooms;
	}
}

void stepcauses_find(struct stepgrowth *g, const struct stepcauses *c)
{
	struct stepplaces f;

	if (!c->nr_growing)
		return;
	stepplaces_find(&f, c);
	g->cause = heap_alloc(f.nr, sizeof(*g->cause));
	if (!c->is_stepless && find_graph(&f, c))
		graph_cause(g, c, &f);
	for (uint32_t i = 0; i < f.nr; i++)
		if (!f.place[i].in_graph)
			cause_of(g, c, &f.place[i], false, 1);
	find_ends(g, c, &f);
	stepplaces_release(&f);
}

void stepcauses_release(struct stepcauses *c)
{
	free(c->of_group);
	free(c->first_group);
	free(c->bytes);
	free(c->blocks);
	free(c->asked);
	free(c->growing);
}
