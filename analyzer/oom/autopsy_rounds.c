/* SPDX-License-Identifier: MIT */
/* Not a cause: lines that run again and again within one step, and save something for its backward pass each time. */
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/sourceline.h"

struct rounds {
	uint64_t bytes, graph_bytes; /* graph_bytes: made by passes that made graphs themselves */
	uint32_t nr_blocks, most;    /* most: of one line, alike */
	size_t largest;		     /* block */
	uint32_t *stack;	     /* of those that forward has made; to be freed */
	size_t nr_stacks;
};

/* Saved for the pass of the step at hand; without steps, for one that has yet to come. */
static bool is_saved(const struct autopsy *a, size_t i, const bool *is_parent)
{
	const struct category_block *b = &a->categories.block[i];

	return !(b->module && is_parent && is_parent[b->module]) && autopsy_is_of_graph(a, i) && moment_is_passing(b->category) &&
	       (!a->step || b->life.birth.ordinal >= a->step_ordinal);
}

/* What has a graph itself comes before what is saved beside it, unless that is twice as large. */
static bool is_larger(const struct autopsy *a, size_t i, size_t than)
{
	uint64_t bytes = a->categories.block[i].life.size, than_bytes = a->categories.block[than].life.size;

	return bytes * (a->block[i].has_graph ? 2 : 1) > than_bytes * (a->block[than].has_graph ? 2 : 1);
}

static void add_block(struct rounds *r, const struct autopsy *a, size_t i, uint32_t alike)
{
	const struct category_block *b = &a->categories.block[i];

	if (!r->nr_blocks || is_larger(a, i, r->largest))
		r->largest = i;
	r->nr_blocks++;
	r->bytes += b->life.size;
	r->graph_bytes += b->life.in_graph_pass ? b->life.size : 0;
	r->most = alike > r->most ? alike : r->most;
	if (!b->life.in_graph_pass)
		r->stack[r->nr_stacks++] = autopsy_group(a, i)->python_stack;
}

/*
 * By module: has it modules of its own? A line of it that runs again and again may go from one of them to the next, as a model through its
 * layers. NULL: there are no modules. To be freed.
 */
static bool *find_parents(const struct autopsy *a)
{
	const struct modulepaths *paths = a->device->process->modulepaths;
	bool *is_parent = paths && paths->nr_paths ? heap_alloc(paths->nr_paths + 1, sizeof(*is_parent)) : NULL;

	for (uint32_t i = 0; is_parent && i < paths->nr_paths; i++)
		is_parent[paths->path[i].parent] = true;
	return is_parent;
}

/* What was made by the same call of the same module: layers after one another are of one line, too. */
struct made_by {
	uint64_t group, module;
	uint32_t nr; /* of them all */
};

static int compare_made_by(const void *x, const void *y)
{
	const struct made_by *a = x, *b = y;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	return (a->module > b->module) - (a->module < b->module);
}

static struct made_by made_by(const struct autopsy *a, size_t i)
{
	return (struct made_by){ a->categories.block[i].life.group, a->categories.block[i].module, 0 };
}

/* Sorts them, and tells each how many are alike. */
static void count_alike(struct made_by *all, size_t nr)
{
	size_t next;

	qsort(all, nr, sizeof(*all), compare_made_by);
	for (size_t i = 0; i < nr; i = next) {
		for (next = i; next < nr && !compare_made_by(&all[i], &all[next]); next++)
			;
		for (size_t k = i; k < next; k++)
			all[k].nr = (uint32_t)(next - i);
	}
}

static uint32_t nr_alike(const struct made_by *all, size_t nr, struct made_by one)
{
	const struct made_by *found = bsearch(&one, all, nr, sizeof(one), compare_made_by);

	return found ? found->nr : 0;
}

/* Those of which there are at least so many alike. */
static void find_rounds(struct rounds *r, const struct autopsy *a, uint32_t least)
{
	size_t nr_blocks = a->categories.nr_blocks, nr = 0;
	struct made_by *all = heap_alloc(nr_blocks + 1, sizeof(*all));
	bool *is_parent = find_parents(a);

	*r = (struct rounds){ .stack = heap_alloc(nr_blocks + 1, sizeof(*r->stack)) };
	for (size_t i = 0; i < nr_blocks; i++)
		if (is_saved(a, i, is_parent))
			all[nr++] = made_by(a, i);
	count_alike(all, nr);
	for (size_t i = 0; i < nr_blocks; i++) {
		uint32_t alike = is_saved(a, i, is_parent) ? nr_alike(all, nr, made_by(a, i)) : 0;

		if (alike && alike >= least)
			add_block(r, a, i, alike);
	}
	free(all);
	free(is_parent);
}

/*
 * The line that goes round: below the innermost line that all have in common, on the way to the largest. Where that is its own line, the common
 * one; where all are of one line, the one that called the model that it is in.
 */
static bool find_caller(struct stack_frame *caller, const struct rounds *r, const struct autopsy *a, const struct stack_frame *site)
{
	uint32_t stack = autopsy_group(a, r->largest)->python_stack;
	struct stack_frame common, line = *site, outer;

	if (!r->nr_stacks || !autopsy_common_line(a, r->stack, r->nr_stacks, &common))
		return false;
	if (sourceline_is_same_call(site, &common))
		return autopsy_call_line(a, stack, caller) && !sourceline_is_same_call(site, caller);
	while (autopsy_outer_line(a, stack, &line, &outer) && !sourceline_is_same_call(&outer, &common))
		line = outer;
	*caller = sourceline_is_same_call(&line, site) ? common : line;
	return true;
}

/* The sum of losses that leads to all of them; another number leads to its own part alone. NULL: there is none. */
static const struct namegroup *sum_of_rounds(const struct autopsy *a)
{
	const struct namegroup *sum = a->graph_holder;

	if (!sum || sum->blocks != 1 || !sum->named.is_number)
		return NULL;
	for (size_t i = 0; i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];

		if (g != sum && g->is_named && g->blocks == 1 && g->named.is_number && 2 * g->nodes <= sum->nodes)
			return sum;
	}
	return NULL;
}

/*
 * The same where no number of a part is left: one that leads to what most of the rounds have saved while the next one is still computed. A
 * result comes after all of them.
 */
static const struct namegroup *sum_so_far(const struct autopsy *a, const struct rounds *r)
{
	const struct namegroup *sum = a->graph_holder;

	return sum && sum->blocks == 1 && sum->named.is_number && a->failure->phase == PHASE_FORWARD && 2 * (uint64_t)sum->nodes > r->nr_blocks ?
		       sum :
		       NULL;
}

/* Of a sum it is known that its parts wait for one pass. */
static uint32_t least_rounds(const struct namegroup *sum)
{
	return sum ? OPEN_CALLS_MIN : ROUNDS_MIN;
}

/*
 * What goes on from each run to the next: a variable of a function on the way to the largest, which leads to most of what the runs have saved. What was
 * computed of it leads to more. NULL: none is known to; else *line is where its function went on to the run.
 */
static const struct namegroup *find_carried(struct stack_frame *line, const struct rounds *r, const struct autopsy *a)
{
	uint32_t stack = autopsy_group(a, r->largest)->python_stack;
	const struct namegroup *carried = NULL;
	struct stack_frame of;

	for (size_t i = 0; i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];

		if (!g->is_named || g->blocks != 1 || g->named.name.root != ROOT_LOCAL || 2 * (uint64_t)g->nodes <= r->nr_blocks ||
		    (carried && g->nodes >= carried->nodes) || !autopsy_line_of(a, stack, &g->named.name, &of))
			continue;
		carried = g;
		*line = of;
	}
	return carried;
}

bool autopsy_has_rounds(const struct autopsy *a)
{
	struct rounds r;

	find_rounds(&r, a, least_rounds(sum_of_rounds(a)));
	free(r.stack);
	return 2 * r.bytes > a->failure->allocated;
}

void autopsy_say_rounds(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct namegroup *sum = sum_of_rounds(a);
	const struct namegroup *carried;
	struct stack_frame line;
	struct rounds r;

	find_rounds(&r, a, least_rounds(sum));
	if (!sum)
		sum = sum_so_far(a, &r);
	if (2 * r.bytes > a->failure->allocated) {
		f->bytes = r.bytes;
		autopsy_at_block(a, f, r.largest);
		f->has_caller = find_caller(&f->caller, &r, a, &f->site);
		autopsy_say(f, SAID(rounds_are_saved, fact_bytes("bytes", r.bytes), fact_if(sum, fact_name("sum", sum ? namegroup_text(sum) : NULL)),
				    fact_count("tensors", r.nr_blocks), fact_count("most", r.most),
				    fact_bytes("asked", a->failure->asked)));
		carried = sum ? NULL : find_carried(&line, &r, a);
		if (carried)
			autopsy_evidence_first(f, SAID(rounds_carry, fact_name("name", namegroup_text(carried)), fact_name("function", line.function)));
		if (carried && !f->has_caller) {
			f->caller = line;
			f->has_caller = true;
		}
		if (sum)
			autopsy_advise_first(f, SAID(outer_advice, fact_name("sum", namegroup_text(sum)), fact_bytes("less", r.bytes)));
		else
			autopsy_advise_first(f, SAID(rounds_advice, fact_bytes("bytes", r.bytes - r.bytes / r.most)));
		if (r.graph_bytes)
			autopsy_advise_first(f, SAID(rounds_graph_advice, fact_bytes("bytes", r.graph_bytes)));
	}
	free(r.stack);
}
