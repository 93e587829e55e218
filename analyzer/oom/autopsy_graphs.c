/* SPDX-License-Identifier: MIT */
/* Causes: graphs of autograd that no backward pass has used up. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/modulename.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/sourceline.h"

/*
 * Has a backward pass gone through what the line that called the model for this block has made, if by another
 * way to this line? Only a name can then tell an evaluation.
 */
static bool is_line_consumed(const struct autopsy *a, size_t block)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	struct stack_frame line, other;

	if (!autopsy_call_line(a, autopsy_group(a, block)->python_stack, &line))
		return false;
	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->device == a->device->ordinal && g->phase == PHASE_FORWARD &&
		    lives->fates[i].nr[FATE_INTO_PASS] &&
		    autopsy_call_line(a, g->python_stack, &other) && sourceline_is_same_call(&line, &other))
			return true;
	}
	return false;
}

/* Of a stack's frames the function that is named for trying a model out; NULL: none. */
static const char *evaluating(const struct autopsy *a, uint32_t python_stack)
{
	static const char *const names[] = { "eval", "valid", "test", "predict", "infer", "generate" };
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	const char *found = NULL;

	stack_expand(&stack, &source, python_stack, 0);
	for (uint32_t i = 0; i < stack.nr_frames && !found; i++)
		for (size_t k = 0; k < sizeof(names) / sizeof(*names) && !found; k++)
			if (stack.frame[i].python && !stack.frame[i].framework && stack.frame[i].function &&
			    strstr(stack.frame[i].function, names[k]))
				found = stack.frame[i].function;
	stack_release(&stack);
	return found;
}

/* The outermost module whose call led to this stack. false: none did, or nothing is known of modules. */
static bool find_outermost(struct tfmt_instance *outermost, const struct autopsy *a, uint32_t python_stack)
{
	const struct tfmt_reader *reader = a->device->process->reader;
	struct tfmt_instance in;
	struct tfmt_call call;

	*outermost = (struct tfmt_instance){ 0 };
	for (uint32_t id = python_stack; tfmt_reader_call(reader, id, &call); id = call.parent)
		if (call.instance && tfmt_reader_instance(reader, call.instance, &in))
			*outermost = in;
	return outermost->address && a->device->process->names;
}

/* Was it in evaluation mode (model.eval()) when memory ran out? */
static bool is_of_evaluation(const struct autopsy *a, size_t block)
{
	struct tfmt_instance outermost;

	return find_outermost(&outermost, a, autopsy_group(a, block)->python_stack) &&
	       modulename_mode(a->device->process->names, &outermost) & TFMT_OBJECT_EVALUATES;
}

/* And in training mode before? */
static bool was_training(const struct autopsy *a, size_t block)
{
	struct tfmt_instance outermost;

	return find_outermost(&outermost, a, autopsy_group(a, block)->python_stack) &&
	       modulename_modes(a->device->process->names, &outermost) & TFMT_OBJECT_TRAINS;
}

/* The model evaluates, and keeps graphs: nobody will go back through them. */
static bool is_in_evaluation_mode(const struct autopsy *a, struct autopsy_finding *f, const struct opengraphs *g)
{
	if (!is_of_evaluation(a, g->largest) || is_line_consumed(a, g->largest)) /* that line trains, in whatever mode */
		return false;
	f->bytes = g->bytes;
	autopsy_at_call(a, f, g->largest);
	autopsy_say(f, SAID(evaluation_keeps_graphs, fact_bytes("bytes", g->bytes)));
	autopsy_evidence(f, SAID(evaluation_mode, fact_count("passes", a->failure->nr_begun)));
	autopsy_advise(f, SAID(evaluation_advice, fact_bytes("bytes", g->bytes)));
	return true;
}

/* How many tensors that were made as this block was, of whatever size, were freed so far. */
static uint64_t nr_freed_of_stack(const struct autopsy *a, size_t block)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	uint64_t nr = 0;

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);

		for (int k = 0; g->tensor && g->python_stack == autopsy_group(a, block)->python_stack && k < NR_FATES; k++)
			nr += lives->fates[i].nr[k];
	}
	return nr;
}

/* Has forward done as much before the graph that is open as for it? Else what it freed were temporaries of the same call. */
static bool has_called_before(const struct autopsy *a)
{
	uint32_t first = a->failure->nr_forwards;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct lives_when *birth = &a->categories.block[i].life.birth;

		/* A workspace stays from the first call of its thread on. */
		if (opengraphs_is_open(&a->moment, i) && a->block[i].has_graph &&
		    a->categories.block[i].category != CATEGORY_WORKSPACE && birth->nr_forwards < first)
			first = birth->nr_forwards;
	}
	return first >= a->failure->nr_forwards - first;
}

/* no_grad() of another thread does not apply, and an async function is only begun under that of its decorator, not run. */
static struct said inference_advice(const struct autopsy *a, size_t block, uint64_t bytes)
{
	bool is_of_coroutine = autopsy_is_of_coroutine(a, autopsy_group(a, block)->python_stack);

	return SAID(inference_advice, fact_bytes("bytes", bytes), fact_flag("of_thread", !is_of_coroutine),
		    fact_flag("of_coroutine", is_of_coroutine));
}

/*
 * No backward pass has ever begun, and what calls before had saved for one was let go of: nobody will go back. A training that
 * has yet to begin, or sums up losses for one pass, keeps it.
 */
static bool is_never_gone_back(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct opengraphs *g = &a->patterns.open;

	/* Of several calls they are kept. */
	if (!g->nr_blocks || g->nr_calls >= OPEN_CALLS_MIN || !autopsy_matters(a, g->bytes) ||
	    nr_freed_of_stack(a, g->largest) < OPEN_CALLS_MIN || !has_called_before(a))
		return false;
	f->bytes = g->bytes;
	autopsy_at_call(a, f, g->largest);
	autopsy_say(f, SAID(graph_is_unused, fact_bytes("bytes", g->bytes)));
	autopsy_evidence(f, SAID(graphs_were_let_go, NO_FACTS));
	autopsy_advise(f, inference_advice(a, g->largest, g->bytes));
	return true;
}

/* ---- within one step: results are detached, or nothing is made of them ------------------------- */

/* Of one Python stack, in whatever shape: how many blocks were freed before a pass began, or later; how many are held by a graph now. */
struct saved {
	uint64_t nr_unused, nr_used;
	uint32_t nr_held;
};

struct unused {
	uint32_t *stack;	   /* of Python, one for each block */
	size_t nr_blocks, largest; /* largest: block */
	uint64_t bytes;
};

static void add_fates(struct saved *of, uint32_t nr_stacks, const struct autopsy *a)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates; i++) {
		const struct group *g = books_group(books, i);
		const struct lives_fates *f = &lives->fates[i];

		if (!g->tensor || g->device != a->device->ordinal || g->python_stack >= nr_stacks)
			continue;
		of[g->python_stack].nr_unused += f->nr[FATE_SHORT];
		of[g->python_stack].nr_used += f->nr[FATE_INTO_PASS] + f->nr[FATE_KEPT];
	}
}

static bool is_freed_unused(const struct autopsy *a, size_t i)
{
	const struct lives_fates *fates = autopsy_fates(a, i);

	return fates && fates->nr[FATE_SHORT];
}

/*
 * Held by the graph alone, and of a stack of which all were freed before a backward pass began, at least one before each pass so far.
 * Several are held at once: what an operation needs for itself is there once.
 */
static void find_unused(struct unused *u, const struct autopsy *a)
{
	uint32_t nr_stacks;
	struct saved *of = autopsy_by_stack(a, sizeof(*of), &nr_stacks);

	*u = (struct unused){ .stack = heap_alloc(a->categories.nr_blocks + 1, sizeof(*u->stack)) };
	add_fates(of, nr_stacks, a);
	for (int counts = 1; counts >= 0; counts--)
		for (size_t i = 0; i < a->categories.nr_blocks; i++) {
			uint32_t stack = autopsy_group(a, i)->python_stack;

			if (stack >= nr_stacks || !opengraphs_is_open(&a->moment, i) || !autopsy_is_held_by_graph(a, i) ||
			    of[stack].nr_used || of[stack].nr_unused < a->failure->nr_begun)
				continue;
			if (!is_freed_unused(a, i)) /* of its own shape as well: layers after one another have one stack */
				continue;
			of[stack].nr_held += counts;
			if (counts || of[stack].nr_held < OPEN_CALLS_MIN)
				continue;
			if (!u->nr_blocks || a->categories.block[i].life.size > a->categories.block[u->largest].life.size)
				u->largest = i;
			u->stack[u->nr_blocks++] = stack;
			u->bytes += a->categories.block[i].life.size;
		}
	free(of);
}

static bool is_unused_graph(const struct autopsy *a, struct autopsy_finding *f)
{
	struct stack_frame line;
	struct unused u;
	bool applies;

	find_unused(&u, a);
	applies = u.nr_blocks && autopsy_matters(a, u.bytes) && autopsy_common_line(a, u.stack, u.nr_blocks, &line);
	if (applies) {
		f->bytes = u.bytes;
		autopsy_at_call(a, f, u.largest);
		f->site = line;
		f->has_site = true;
		f->has_holder = true; /* a loss of the step before has a grad_fn, too, and keeps nothing of this */
		autopsy_say(f, SAID(graph_is_unused, fact_bytes("bytes", u.bytes)));
		autopsy_evidence(f, SAID(graph_was_let_go, fact_count("passes", a->failure->nr_begun)));
		autopsy_advise(f, SAID(unused_graph_advice, fact_site("site", &line), fact_bytes("bytes", u.bytes)));
	}
	free(u.stack);
	return applies;
}

/* ---- of whole calls --------------------------------------------------------------------------- */

/* Training has had backward passes, and this code never one: by the model's mode, or by what it does. */
bool autopsy_is_evaluation(const struct autopsy *a, struct autopsy_finding *f)
{
	const char *name = NULL;
	const struct opengraphs *g = &a->patterns.open;
	bool is_consumed;

	if (!a->failure->nr_begun) /* some train a model in evaluation mode, and backward may have been to come */
		return is_never_gone_back(a, f);
	if (is_unused_graph(a, f))
		return true;
	if (!g->nr_blocks || g->is_consumed || !autopsy_matters(a, g->bytes))
		return false;
	if (is_in_evaluation_mode(a, f, g))
		return true;
	/* A name alone is believed once training is under way: its first steps may bring further models'
	 * forward. */
	if (a->step >= EVALUATION_STEPS_MIN)
		name = evaluating(a, autopsy_group(a, g->largest)->python_stack);
	is_consumed = is_line_consumed(a, g->largest);
	if (!name && (is_consumed || g->nr_calls < OPEN_CALLS_MIN || OPEN_REPEATED_PART * g->repeated_bytes < g->bytes))
		return false;
	if (is_consumed) /* a name alone */
		f->certainty = CERTAINTY_LIKELY;
	f->bytes = g->bytes;
	autopsy_at_call(a, f, g->largest);
	autopsy_say(f, SAID(evaluation_keeps_graphs, fact_bytes("bytes", g->bytes)));
	if (is_consumed)
		autopsy_evidence(f, SAID(evaluation_function, fact_count("passes", a->failure->nr_begun),
					 fact_name("function", name)));
	else
		autopsy_evidence(f, SAID(evaluation_line, fact_count("passes", a->failure->nr_begun),
					 fact_name("function", name)));
	if (g->nr_calls >= OPEN_CALLS_MIN)
		autopsy_evidence(f, SAID(evaluation_calls, fact_count("calls", g->nr_calls)));
	autopsy_advise(f, SAID(evaluation_advice, fact_bytes("bytes", g->bytes)));
	return true;
}

/* Have backward passes gone through what this module made, or what this line called, for whomever? NULL: that is not asked. */
static bool is_used(const struct autopsy *a, const struct tfmt_instance *module, const struct stack_frame *line)
{
	const struct books *books = a->device->process->books;
	const struct lives *lives = a->device->process->lives;
	struct tfmt_instance outermost;
	bool is = false;

	for (uint32_t i = 0; i < books_nr_groups(books) && i < lives->nr_fates && !is; i++) {
		const struct group *g = books_group(books, i);

		if (!g->tensor || g->device != a->device->ordinal || !lives->fates[i].nr[FATE_INTO_PASS])
			continue;
		is = (module && find_outermost(&outermost, a, g->python_stack) && outermost.address == module->address) ||
		     (line && autopsy_leads_through(a, g->python_stack, line));
	}
	return is;
}

bool autopsy_unused_line(struct stack_frame *line, const struct autopsy *a, const uint32_t *python_stacks, size_t nr)
{
	struct stack_frame inner;
	bool found = nr && autopsy_common_line(a, python_stacks, nr, line);

	while (found && is_used(a, NULL, line)) {
		inner = *line;
		found = autopsy_outer_line(a, python_stacks[0], &inner, line);
	}
	return found;
}

/*
 * What has been trained computes something else here: the innermost line that all open graphs have in common, and that no pass has
 * gone back to, where passes have used the same model, or the same code. A further model may be trained by what follows.
 */
static bool find_open_line(struct stack_frame *line, const struct autopsy *a)
{
	uint32_t *stack = heap_alloc(a->categories.nr_blocks + 1, sizeof(*stack));
	struct tfmt_instance outermost;
	bool found, is_known;
	size_t nr = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (opengraphs_is_open(&a->moment, i) && a->block[i].has_graph)
			stack[nr++] = autopsy_group(a, i)->python_stack;
	found = nr && autopsy_common_line(a, stack, nr, line);
	if (found && find_outermost(&outermost, a, stack[0]))
		is_known = is_used(a, &outermost, NULL);
	else
		is_known = found && is_used(a, NULL, &a->place[a->block[a->patterns.open.largest].place].frame);
	found = is_known && autopsy_unused_line(line, a, stack, nr);
	free(stack);
	return found;
}

void autopsy_say_open(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct opengraphs *g = &a->patterns.open;
	struct fact bytes = fact_bytes("bytes", g->bytes), asked = fact_bytes("asked", a->failure->asked);
	struct tfmt_instance outermost;
	struct stack_frame line;

	if (!g->nr_blocks || 2 * g->bytes <= a->failure->allocated)
		return;
	if (!a->failure->nr_begun) {
		/* Some train a model in evaluation mode, and have an optimizer for it. */
		if (!is_of_evaluation(a, g->largest) || !find_outermost(&outermost, a, autopsy_group(a, g->largest)->python_stack) ||
		    autopsy_is_updated(a, outermost.address))
			return;
		f->bytes = g->bytes;
		autopsy_at_call(a, f, g->largest);
		autopsy_say(f, SAID(open_in_evaluation, bytes, asked));
		autopsy_advise_first(f, SAID(evaluation_advice, bytes));
	} else if (is_line_consumed(a, g->largest) && is_of_evaluation(a, g->largest) && was_training(a, g->largest)) {
		f->bytes = g->bytes;
		autopsy_at_call(a, f, g->largest);
		autopsy_say(f, SAID(trains_in_evaluation, bytes, asked));
		autopsy_advise_first(f, SAID(train_mode_advice, NO_FACTS));
	} else if (!g->is_consumed && !is_line_consumed(a, g->largest) && find_open_line(&line, a)) {
		f->bytes = g->bytes;
		autopsy_at_call(a, f, g->largest);
		f->site = line;
		f->has_site = true;
		autopsy_say(f, SAID(open_since_pass, bytes, asked));
		autopsy_advise_first(f, SAID(open_advice, fact_site("site", &line), bytes));
	}
}

bool autopsy_is_graph_retention(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct opengraphs *g = &a->patterns.open;

	if (g->nr_calls < OPEN_CALLS_MIN || !autopsy_matters(a, g->repeated_bytes) ||
	    NO_BACKWARD_PART * (g->repeated_bytes + g->input_bytes) < a->failure->allocated)
		return false;
	f->bytes = g->repeated_bytes;
	autopsy_at_call(a, f, g->largest);
	autopsy_say(f, SAID(graphs_without_pass, fact_bytes("bytes", f->bytes), fact_count("calls", g->nr_calls)));
	autopsy_evidence(f, SAID(graphs_of_each_call, fact_bytes("each", f->bytes / g->nr_calls),
				 fact_count("passes", a->failure->nr_begun)));
	if (g->input_bytes >= f->bytes / GRAPH_BATCHES_PART)
		autopsy_evidence(f, SAID(graphs_have_batches, fact_bytes("batches", g->input_bytes)));
	/* What never went back, and has a model that evaluates, is no training. */
	if (!a->failure->nr_begun && is_of_evaluation(a, g->largest))
		autopsy_advise(f, inference_advice(a, g->largest, f->bytes));
	else
		autopsy_advise(f, SAID(graphs_advice, fact_bytes("freed", f->bytes - f->bytes / g->nr_calls)));
	return true;
}
