/* SPDX-License-Identifier: MIT */
/* Causes: memory that the program keeps from one step to the next. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/forwardstacks.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/patterns/keptgraph.h"
#include "analyzer/patterns/patterns_thresholds.h"
#include "analyzer/stacks/framekind.h"
#include "analyzer/stacks/sourceline.h"

#define PLACES_TOLD 3

static uint64_t bytes_per_step(const struct kepttensors *k)
{
	return k->nr_steps ? k->bytes / k->nr_steps : 0;
}

static void say_kept(struct autopsy_finding *f, const struct kepttensors *k)
{
	struct fact blocks = fact_count("blocks", k->blocks), first = fact_step("first", k->first);
	struct fact last = fact_step("last", k->last), each = fact_bytes("each", bytes_per_step(k));

	if (kepttensors_interval(k) < KEPT_NOW_AND_THEN && kepttensors_interval(k) > KEPT_NEARLY_EVERY)
		autopsy_evidence(f, SAID(kept_of_some_steps, blocks, fact_count("steps", k->nr_steps), first, last, each));
	else if (kepttensors_interval(k) < KEPT_NOW_AND_THEN)
		autopsy_evidence(f, SAID(kept_of_each_step, blocks, first, last, each));
	else
		autopsy_evidence(f, SAID(kept_now_and_then, blocks, first, last, each, fact_ratio("interval", kepttensors_interval(k))));
}

typedef bool keeps_fn(const struct moment *at, const struct kepttensors *k);

/* The place that keeps most; its index, or -1. */
static int64_t most_kept(const struct autopsy *a, keeps_fn *keeps)
{
	const struct kepttensors *kept = a->patterns.kept;
	int64_t best = -1;

	for (size_t i = 0; i < a->nr_places; i++)
		if (keeps(&a->moment, &kept[i]) && (best < 0 || kept[i].bytes > kept[best].bytes))
			best = (int64_t)i;
	return best;
}

/* Graphs of earlier steps, of all places. */
struct kept_graphs {
	uint64_t bytes, per_step; /* per_step: tensors */
	uint64_t results;	  /* the last tensor of each step: what is kept itself, not for its graph */
	uint32_t nr_steps;
	size_t block; /* the largest of them at the place that keeps most */
};

/* Was it left by a step before, by a line that keeps something so? */
static bool is_kept(const struct autopsy *a, size_t i, keeps_fn *keeps)
{
	return kepttensors_is_of_step(&a->moment, i) && keeps(&a->moment, &a->patterns.kept[a->block[i].place]);
}

/*
 * Do the tensors with a graph that steps have left lie close to each other, as those that a graph keeps? So do outputs that a hook
 * collects: not where censuses have seen that objects of Python's hold most of them, and lead to no graph.
 */
static bool are_of_graphs(const struct autopsy *a)
{
	struct keptgraph g = { 0 };
	uint64_t bytes = 0, detached = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!a->block[i].has_graph || !is_kept(a, i, kepttensors_are_kept_on))
			continue;
		keptgraph_add(&g, b->step, b->life.birth.nr_forwards);
		bytes += b->life.size;
		detached += a->block[i].is_detached ? b->life.size : 0;
	}
	return keptgraph_is(&g) && 2 * detached <= bytes;
}

/* Have censuses seen that autograd has them? No object of Python's holds more than half of what steps have left. */
static bool are_seen_in_graphs(const struct autopsy *a, keeps_fn *keeps)
{
	uint64_t bytes = 0, in_graphs = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (!is_kept(a, i, keeps))
			continue;
		bytes += a->categories.block[i].life.size;
		if (a->block[i].is_native || autopsy_is_held_by_graph(a, i))
			in_graphs += a->categories.block[i].life.size;
	}
	return 2 * in_graphs > bytes;
}

/* The largest block that steps have left of a place (of_graph: with a graph); others of its line are of this step. */
static size_t largest_kept(const struct autopsy *a, size_t place, bool of_graph)
{
	size_t largest = a->place[place].largest;
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (a->block[i].place != place || !kepttensors_is_of_step(&a->moment, i) || (of_graph && !a->block[i].has_graph) ||
		    b->life.size <= bytes)
			continue;
		bytes = b->life.size;
		largest = i;
	}
	return largest;
}

static uint64_t results_of(const struct autopsy *a, keeps_fn *keeps)
{
	const struct category_block *last = NULL;
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (!a->block[i].has_graph || !is_kept(a, i, keeps))
			continue;
		if (last && last->step != b->step)
			bytes += last->life.size;
		last = b;
	}
	return bytes + (last ? last->life.size : 0);
}

/* Of graphs that are kept now and then only censuses tell. */
static bool find_kept_graphs_so(const struct autopsy *a, struct kept_graphs *g, keeps_fn *keeps)
{
	const struct kepttensors *kept = a->patterns.kept;
	int64_t best = most_kept(a, keeps);
	uint64_t graph = 0;
	bool is_graph = best >= 0 && ((keeps == kepttensors_are_kept_on && are_of_graphs(a)) || are_seen_in_graphs(a, keeps));

	*g = (struct kept_graphs){ 0 };
	for (size_t i = 0; best >= 0 && i < a->nr_places; i++) {
		if (!keeps(&a->moment, &kept[i]))
			continue;
		g->bytes += kept[i].bytes;
		graph += kept[i].graph_bytes;
		g->per_step += kept[i].graph_blocks / kept[i].nr_steps;
	}
	if (best >= 0) {
		g->results = results_of(a, keeps);
		g->block = largest_kept(a, (size_t)best, true);
		g->nr_steps = kept[best].nr_steps;
	}
	/* One or two outputs may be kept without their graph; its saved tensors make more. */
	return is_graph && GRAPH_KEPT_PART * graph >= g->bytes &&
	       autopsy_matters(a, g->bytes);
}

static bool find_kept_graphs(const struct autopsy *a, struct kept_graphs *g)
{
	return find_kept_graphs_so(a, g, kepttensors_are_kept_on) || find_kept_graphs_so(a, g, kepttensors_are_kept_regularly);
}

/* What backward passes have freed of all that forward made for them. */
static double freed_by_passes(const struct autopsy *a)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	double bytes = 0;

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->device == a->device->ordinal && g->phase == PHASE_FORWARD)
			bytes += (double)lives->fates[i].nr[FATE_INTO_PASS] * (double)g->shape_bytes;
	}
	return bytes;
}

/* Called at the line that passes have left out, where what it calls is used elsewhere as well: a teacher of the student's class. */
static void at_passed_by(const struct autopsy *a, struct autopsy_finding *f, size_t block)
{
	struct stack_frame line;

	if (!autopsy_unused_line(&line, a, &(uint32_t){ autopsy_group(a, block)->python_stack }, 1) || sourceline_is_same_call(&line, &f->site))
		return;
	f->caller = line;
	f->has_caller = true;
}

/* Graphs of calls that passes went by, though what other calls made was freed by them. */
struct passed_by {
	uint64_t bytes;
	uint32_t nr_blocks, nr_groups, nr_steps;
	size_t largest;
};

/* Forward made it for backward, a whole pass followed, and no pass has ever ended such a block; nor is it a result without its graph. */
static bool is_passed_by(const struct autopsy *a, size_t i)
{
	const struct lives_fates *fates = autopsy_fates(a, i);
	uint32_t nr_whole = a->failure->nr_begun - (a->failure->phase == PHASE_BACKWARD);

	return a->block[i].has_graph && !a->block[i].is_detached && a->categories.block[i].life.birth.nr_begun < nr_whole &&
	       !(fates && fates->nr[FATE_INTO_PASS]);
}

static bool find_passed_by(const struct autopsy *a, struct passed_by *g)
{
	uint32_t *count = heap_alloc(books_nr_groups(a->device->process->books) + 1, sizeof(*count)), nr;
	const struct category_block *last = NULL;
	struct keptgraph graph = { 0 };

	*g = (struct passed_by){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		count[a->categories.block[i].life.group] += is_passed_by(a, i);
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		nr = count[b->life.group];
		if (nr < PASSED_CALLS_MIN || !is_passed_by(a, i)) /* made once: a workspace, say */
			continue;
		if (!g->nr_blocks++ || b->life.size > a->categories.block[g->largest].life.size)
			g->largest = i;
		g->bytes += b->life.size;
		keptgraph_add(&graph, b->life.birth.nr_begun, b->life.birth.nr_forwards);
		g->nr_steps += !last || b->step != last->step;
		last = b;
	}
	for (size_t i = 0; i < books_nr_groups(a->device->process->books); i++)
		g->nr_groups += count[i] >= PASSED_CALLS_MIN;
	free(count);
	/* Results that are kept alone are few, and what lay between them is gone. */
	return g->nr_groups >= PASSED_STACKS_MIN && keptgraph_is(&graph) &&
	       freed_by_passes(a) >= (double)g->bytes && autopsy_matters(a, g->bytes);
}

bool autopsy_is_past_evaluation(const struct autopsy *a, struct autopsy_finding *f)
{
	struct passed_by g;

	if (!find_passed_by(a, &g))
		return false;
	f->bytes = g.bytes;
	autopsy_at_call(a, f, g.largest);
	at_passed_by(a, f, g.largest);
	autopsy_say(f, SAID(passed_by_graphs, fact_bytes("bytes", g.bytes)));
	autopsy_evidence(f, SAID(passed_by_passes, fact_count("passes", a->failure->nr_begun)));
	autopsy_evidence(f, SAID(passed_by_steps, fact_count("steps", g.nr_steps)));
	autopsy_advise(f, SAID(no_grad_advice, fact_bytes("less", g.bytes)));
	return true;
}

static void say_kept_graphs(const struct autopsy *a, struct autopsy_finding *f, const struct kept_graphs *g,
			    struct said said)
{
	f->bytes = g->bytes;
	f->per_step = g->bytes / g->nr_steps;
	autopsy_at_call(a, f, g->block);
	at_passed_by(a, f, g->block);
	autopsy_say(f, said);
	autopsy_evidence(f, SAID(graphs_each_step, fact_count("tensors", g->per_step), fact_bytes("each", f->per_step)));
}

/* Where no object of the program's leads to them: then nothing else than their own gradients does. */
static bool say_cycles(const struct autopsy *a, struct autopsy_finding *f, uint64_t bytes)
{
	if (!a->device->process->names || a->graph_holder || !autopsy_have_passes_made_graphs(a))
		return false;
	f->certainty = CERTAINTY_PROVEN;
	autopsy_evidence(f, SAID(graphs_as_cycles, NO_FACTS));
	autopsy_advise(f, SAID(cycles_advice, fact_bytes("less", bytes)));
	return true;
}

/* Gradients that nobody sets to None: each pass that makes a graph adds one to theirs. */
static bool say_gradients(const struct autopsy *a, struct autopsy_finding *f, uint64_t bytes)
{
	if (!a->graph_holder || a->graph_holder->named.use != USE_GRADIENT || !autopsy_have_passes_made_graphs(a))
		return false;
	autopsy_evidence_first(f, SAID(graphs_of_gradients, fact_name("name", namegroup_text(a->graph_holder))));
	autopsy_advise(f, SAID(gradients_advice, fact_bytes("less", bytes)));
	return true;
}

/* All passes made graphs, as for a gradient of gradients: what their results are added up in waits for the pass through all. */
static bool say_outer(const struct autopsy *a, struct autopsy_finding *f, uint64_t bytes)
{
	const struct namegroup *g = a->graph_holder;

	if (!g || g->blocks != 1 || !g->named.has_node || !g->named.is_number || !autopsy_have_passes_made_graphs(a))
		return false;
	f->is_awaited = true;
	autopsy_evidence(f, SAID(graphs_for_outer, NO_FACTS));
	autopsy_advise(f, SAID(outer_advice, fact_name("sum", namegroup_text(g)), fact_bytes("less", bytes)));
	return true;
}

/* What is updated by the gradients of such passes goes on with the graphs of all of them. */
static bool say_updated(const struct autopsy *a, struct autopsy_finding *f, uint64_t bytes)
{
	const struct namegroup *g = a->graph_holder;

	if (!g || g->named.is_number || !autopsy_have_passes_made_graphs(a))
		return false;
	autopsy_advise(f, SAID(no_graphs_advice, fact_name("name", namegroup_text(g)), fact_bytes("bytes", bytes)));
	return true;
}

/* By Python stack: how many blocks of graphs were freed, and of them only when the passes that they were for had ended. */
struct freed_of_stack {
	uint32_t nr, nr_after_pass;
};

static struct freed_of_stack *find_freed(const struct autopsy *a, uint32_t *nr_stacks)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	struct freed_of_stack *of = autopsy_by_stack(a, sizeof(*of), nr_stacks);

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);

		if (!g->tensor || g->device != a->device->ordinal || g->python_stack >= *nr_stacks)
			continue;
		of[g->python_stack].nr_after_pass += lives->fates[i].nr_after_pass;
		for (int k = 0; k < NR_FATES; k++)
			of[g->python_stack].nr += lives->fates[i].nr[k];
	}
	return of;
}

/*
 * What was saved for passes that have not freed it, beside a forward that goes on: retain_graph=True leaves it until the program's variables
 * are given the results of that one. A graph that waits for its pass, as a generator's may, is freed in it.
 */
static bool is_of_forward_before(const struct autopsy *a, struct autopsy_finding *f)
{
	struct freed_of_stack *of;
	uint32_t nr_stacks;
	uint64_t bytes = 0;
	size_t largest = 0;

	if (a->failure->phase != PHASE_FORWARD)
		return false;
	of = find_freed(a, &nr_stacks);
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		uint32_t stack = autopsy_group(a, i)->python_stack;

		if (!autopsy_is_held_by_graph(a, i) || life->birth.nr_begun >= a->failure->nr_begun || stack >= nr_stacks ||
		    2 * of[stack].nr_after_pass <= of[stack].nr)
			continue;
		if (!bytes || life->size > a->categories.block[largest].life.size)
			largest = i;
		bytes += life->size;
	}
	free(of);
	if (!bytes || !autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	f->is_awaited = true; /* by the passes, of which the program detaches nothing */
	autopsy_at_call(a, f, largest);
	autopsy_say(f, SAID(graphs_of_forward_before, fact_bytes("bytes", bytes)));
	autopsy_advise(f, SAID(retained_advice, fact_bytes("less", bytes)));
	return true;
}

/* Passes went through the steps, and hardly anything was freed by them. */
bool autopsy_is_retained_graph(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept_graphs g;

	if (!find_kept_graphs_so(a, &g, kepttensors_are_kept_on) || 2 * freed_by_passes(a) >= (double)g.bytes)
		return is_of_forward_before(a, f);
	say_kept_graphs(a, f, &g, SAID(graphs_not_freed, fact_bytes("bytes", g.bytes), fact_count("steps", g.nr_steps)));
	if (say_cycles(a, f, g.bytes) || say_gradients(a, f, g.bytes) || say_outer(a, f, g.bytes) || say_updated(a, f, g.bytes))
		return true;
	autopsy_evidence(f, SAID(graphs_as_retained, NO_FACTS));
	autopsy_advise(f, SAID(retain_advice, fact_bytes("less", g.bytes)));
	return true;
}

/* How many backward passes of the step at hand have left blocks that are called like this group. */
static uint32_t passes_of(const struct autopsy *a, const struct namegroup *g)
{
	uint32_t pass = 0, nr = 0;
	struct named named;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (life->birth.ordinal < a->step_ordinal || (nr && life->birth.nr_begun == pass) ||
		    !namedblocks_name(&named, a->device->process, life, LIVES_OOM) || strcmp(named.name.pattern, g->named.name.pattern))
			continue;
		pass = life->birth.nr_begun;
		nr++;
	}
	return nr;
}

/* Has the step at hand had more passes than twice what those before had on average? Then it is no step of training. */
static bool has_more_passes(const struct autopsy *a)
{
	uint32_t before = a->failure->nr_begun;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct lives_when *birth = &a->categories.block[i].life.birth;

		if (birth->ordinal >= a->step_ordinal && birth->nr_begun < before)
			before = birth->nr_begun;
	}
	return a->step > KEPT_STEPS_MIN && (uint64_t)(a->failure->nr_begun - before) * (a->step - 1) > 2 * (uint64_t)before;
}

/*
 * Passes without an update between them are of one step, however many: as of a loop that looks into a model which has been trained.
 * What holds their graphs is of many passes itself, and leads to as many nodes. Weights that each pass of an inner loop replaces are of
 * the latest alone; so is what goes on from pass to pass after training, where more follow one another than any step had.
 */
static bool is_held_since_update(const struct autopsy *a, struct autopsy_finding *f)
{
	uint32_t nr_whole = a->failure->nr_begun - (a->failure->phase == PHASE_BACKWARD), pass = 0, nr_passes = 0, nr = 0;
	uint64_t *of, bytes = 0, made = 0; /* made: of it in passes that made graphs themselves */
	size_t most = 0;
	bool goes_on, applies;

	if (!a->graph_holder)
		return false;
	goes_on = passes_of(a, a->graph_holder) < KEPT_STEPS_MIN;
	if (goes_on && !has_more_passes(a))
		return false;
	of = heap_alloc(a->nr_places + 1, sizeof(*of));
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		size_t place = a->block[i].place;

		if (!moment_is_in_graph(&a->moment, i) || b->life.birth.ordinal < a->step_ordinal || b->life.birth.nr_begun >= nr_whole)
			continue;
		nr_passes += !nr || b->life.birth.nr_begun != pass;
		pass = b->life.birth.nr_begun;
		bytes += b->life.size;
		made += b->life.in_graph_pass ? b->life.size : 0;
		of[place] += b->life.size;
		most = of[place] > of[most] ? place : most;
		nr++;
	}
	applies = nr_passes >= KEPT_STEPS_MIN && a->graph_holder->nodes >= nr && autopsy_matters(a, bytes);
	if (applies) {
		f->bytes = bytes;
		autopsy_at_call(a, f, a->place[most].largest);
		autopsy_say(f, SAID(graphs_since_update, fact_bytes("bytes", bytes), fact_count("passes", nr_passes)));
		if (goes_on && made)
			autopsy_advise(f, SAID(no_graphs_advice, fact_name("name", namegroup_text(a->graph_holder)), fact_bytes("bytes", bytes)));
		else
			autopsy_advise(f, SAID(detach_advice, fact_bytes("less", bytes)));
	}
	free(of);
	return applies;
}

bool autopsy_is_kept_graphs(const struct autopsy *a, struct autopsy_finding *f)
{
	struct kept_graphs g;

	if (!find_kept_graphs(a, &g))
		return is_held_since_update(a, f);
	say_kept_graphs(a, f, &g, SAID(graphs_held, fact_bytes("bytes", g.bytes), fact_count("steps", g.nr_steps)));
	if (say_cycles(a, f, g.bytes) || say_gradients(a, f, g.bytes) || say_updated(a, f, g.bytes))
		return true;
	if (g.results < RESULTS_MIN * (double)g.bytes)
		autopsy_advise(f, SAID(detach_advice, fact_bytes("less", g.bytes)));
	else if (g.bytes > g.results)
		autopsy_advise(f, SAID(detach_and_host_advice, fact_bytes("less", g.bytes - g.results),
				       fact_bytes("results", g.results)));
	return true;
}

/* Which lines keep it, where several do. */
static void say_places(const struct autopsy *a, struct autopsy_finding *f, keeps_fn *keeps)
{
	static const char *const keys[PLACES_TOLD][2] = { { "first", "first_at" }, { "second", "second_at" }, { "third", "third_at" } };
	const struct kepttensors *kept = a->patterns.kept;
	struct fact fact[2 * PLACES_TOLD];
	unsigned nr = 0;

	for (size_t i = 0; i < a->nr_places && nr < PLACES_TOLD; i++) {
		const struct stack_frame *site = &a->place[i].frame;

		if (!site->file || !keeps(&a->moment, &kept[i]) || (double)kept[i].bytes < PLACE_MIN * (double)f->bytes)
			continue;
		fact[2 * nr] = fact_bytes(keys[nr][0], kept[i].bytes);
		fact[2 * nr + 1] = fact_site(keys[nr][1], site);
		nr++;
	}
	if (nr > 1)
		autopsy_evidence(f, said_of(SAY_kept_by_places, fact, 2 * nr));
}

/* By whom the place's largest block was allocated, where that is no plain call. */
static enum frame_kind say_kind(const struct autopsy *a, struct autopsy_finding *f, size_t place)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	enum frame_kind kind;
	int site;

	stack_expand(&stack, &source, autopsy_group(a, a->place[place].largest)->python_stack, 0);
	site = stack_site(&stack);
	kind = site < 0 ? FRAME_PLAIN : frame_kind_of(&stack, site);
	if (kind != FRAME_PLAIN)
		autopsy_evidence(f, kind == FRAME_HOOK ? SAID(made_in_hook, fact_site("site", &stack.frame[site]))
						       : SAID(made_in_function, fact_site("site", &stack.frame[site])));
	stack_release(&stack);
	return kind;
}

/* Are the place's blocks results of a module with a hook? */
static bool is_hooked(const struct autopsy *a, size_t place)
{
	return forwardstacks_is_hooked(a->replay, a->device,
				       autopsy_group(a, largest_kept(a, place, false))->python_stack);
}

/* How it shows, of the place that keeps most. */
static void say_leak(const struct autopsy *a, struct autopsy_finding *f, size_t best, keeps_fn *keeps)
{
	const struct kepttensors *k = &a->patterns.kept[best];
	bool are_results = 2 * k->graph_blocks >= k->blocks && !are_of_graphs(a);
	enum frame_kind kind;

	say_kept(f, k);
	say_places(a, f, keeps);
	f->is_of_hooked = are_results && is_hooked(a, best);
	if (are_results)
		autopsy_evidence(f, f->is_of_hooked ? SAID(results_of_hooked_module, NO_FACTS) : SAID(results_of_autograd, NO_FACTS));
	kind = say_kind(a, f, best);
	autopsy_say_shapes(a, f, best);
	if (kind != FRAME_PLAIN && kind != FRAME_HOOK) /* backward needs it */
		autopsy_advise(f, SAID(context_advice, fact_bytes("less", f->bytes)));
	else if (f->is_of_hooked)
		autopsy_advise(f, SAID(hooked_advice, fact_bytes("less", f->bytes)));
	else
		autopsy_advise(f, SAID(not_kept_advice, fact_bytes("less", f->bytes)));
}

/* What is kept of all places of which the function says so. */
static bool find_leak(const struct autopsy *a, struct autopsy_finding *f, keeps_fn *keeps)
{
	const struct kepttensors *kept = a->patterns.kept;
	int64_t best = most_kept(a, keeps);
	uint64_t bytes = 0;
	uint32_t nr_steps = 0;
	bool applies;

	for (size_t i = 0; best >= 0 && i < a->nr_places; i++) {
		if (!keeps(&a->moment, &kept[i]))
			continue;
		bytes += kept[i].bytes;
		nr_steps = kept[i].nr_steps > nr_steps ? kept[i].nr_steps : nr_steps;
	}
	applies = best >= 0 && autopsy_matters(a, bytes);
	if (applies) {
		f->bytes = bytes;
		f->per_step = (uint64_t)((double)bytes / nr_steps / fmax(1, kepttensors_interval(&kept[best])));
		autopsy_at_call(a, f, largest_kept(a, (size_t)best, false));
		autopsy_say(f, SAID(kept_of_steps, fact_bytes("bytes", bytes), fact_count("steps", nr_steps),
				    fact_bytes("each", bytes / nr_steps)));
		say_leak(a, f, (size_t)best, keeps);
	}
	return applies;
}

/* Models and optimizers that steps have left are more than their tensors: what holds them is known. */
bool autopsy_is_leak(const struct autopsy *a, struct autopsy_finding *f)
{
	struct autopsy_finding older = *f;
	bool has_older = autopsy_is_kept_by_autocast(a, &older) || autopsy_is_left_in_optimizer(a, &older) ||
			 autopsy_is_kept_by_finalizer(a, &older) || autopsy_is_older_model(a, &older) ||
			 autopsy_is_older_optimizers(a, &older) || autopsy_is_made_anew(a, &older) ||
			 autopsy_is_called_again(a, &older) || autopsy_is_replaced(a, &older);
	bool has_kept = find_leak(a, f, kepttensors_are_kept_on);

	if (has_older && (!has_kept || older.bytes >= f->bytes))
		*f = older;
	return has_older || has_kept;
}

bool autopsy_is_regular_leak(const struct autopsy *a, struct autopsy_finding *f)
{
	return find_leak(a, f, kepttensors_are_kept_regularly);
}
