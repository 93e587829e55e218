/* SPDX-License-Identifier: MIT */
/* Causes: graphs of autograd that no backward pass has used up. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/modulename.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/sourceline.h"

/* Forward's blocks with a graph, after the last backward pass. */
struct open_graphs {
	uint64_t bytes;
	uint32_t nr_blocks;
	uint32_t nr_calls;    /* as often as a batch was made for them */
	uint32_t nr_repeated; /* blocks of stacks that are there as often */
	uint64_t repeated_bytes;
	uint64_t input_bytes; /* of the batches that went into as many calls */
	size_t largest;   /* block */
	bool is_consumed; /* some of their stacks have had a backward before */
};

bool autopsy_is_open(const struct autopsy *a, size_t i)
{
	const struct life *life = &a->categories.block[i].life;

	return life->birth.nr_begun == a->failure->nr_begun && a->failure->nr_begun == life->birth.nr_ended;
}

/* How many live blocks are of each group: an array by group, to be freed. */
static uint32_t *count_groups(const struct autopsy *a, bool graphs)
{
	uint32_t *count = heap_alloc(books_nr_groups(a->device->process->books) + 1, sizeof(*count));

	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (autopsy_is_open(a, i) && a->block[i].has_graph == graphs)
			count[a->categories.block[i].life.group]++;
	return count;
}

/* Made outside of the model, after the latest backward pass. */
static bool is_open_input(const struct autopsy *a, size_t i)
{
	const struct category_block *b = &a->categories.block[i];

	return autopsy_is_open(a, i) && b->category != CATEGORY_PARAMETER && !a->block[i].has_graph &&
	       b->life.birth.phase != PHASE_FORWARD && b->life.birth.phase != PHASE_BACKWARD &&
	       b->life.birth.phase != PHASE_OPTIMIZER;
}

/*
 * A batch is made outside of forward and is there as often as forward was called; *last is when the last was made, *bytes
 * are all that are there as often.
 */
static uint32_t most_inputs(const struct autopsy *a, uint64_t *last, uint64_t *bytes)
{
	uint32_t *count = count_groups(a, false), most = 0, group = 0;

	*last = *bytes = 0;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (is_open_input(a, i) && count[b->life.group] > most) {
			most = count[b->life.group];
			group = b->life.group;
		}
		if (most && b->life.group == group && autopsy_is_open(a, i))
			*last = b->life.birth.ordinal;
	}
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		if (is_open_input(a, i) && count[a->categories.block[i].life.group] + 1 >= most)
			*bytes += a->categories.block[i].life.size;
	free(count);
	return most;
}

static void find_open(const struct autopsy *a, struct open_graphs *g)
{
	uint32_t *count = count_groups(a, true);
	uint64_t last_input, input_bytes, behind_bytes = 0;

	*g = (struct open_graphs){ .nr_calls = most_inputs(a, &last_input, &input_bytes) };
	g->input_bytes = input_bytes;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		const struct lives_fates *fates = autopsy_fates(a, i);

		if (!autopsy_is_open(a, i) || !a->block[i].has_graph)
			continue;
		if (!g->nr_blocks++ || life->size > a->categories.block[g->largest].life.size)
			g->largest = i;
		g->bytes += life->size;
		g->is_consumed |= fates && fates->nr[FATE_INTO_PASS];
		if (count[life->group] + 1 >= g->nr_calls) {
			g->nr_repeated++;
			g->repeated_bytes += life->size;
			behind_bytes += life->birth.ordinal > last_input ? life->size : 0;
		}
	}
	free(count);
	/* They were samples of one batch: the one call that took them all has made most of it. */
	if (ONE_BATCH_PART * behind_bytes > g->repeated_bytes)
		g->nr_calls = 1;
}

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

/* Was the outermost module that made this block in evaluation mode (model.eval()) when memory ran out? */
static bool is_of_evaluation(const struct autopsy *a, size_t block)
{
	const struct tfmt_reader *reader = a->device->process->reader;
	struct tfmt_instance outermost = { 0 }, in;
	struct tfmt_call call;

	for (uint32_t id = autopsy_group(a, block)->python_stack; tfmt_reader_call(reader, id, &call); id = call.parent)
		if (call.instance && tfmt_reader_instance(reader, call.instance, &in))
			outermost = in;
	return outermost.address && a->device->process->names &&
	       modulename_mode(a->device->process->names, &outermost) & TFMT_OBJECT_EVALUATES;
}

/* The model evaluates, and keeps graphs: nobody will go back through them. */
static bool is_in_evaluation_mode(const struct autopsy *a, struct autopsy_finding *f, const struct open_graphs *g)
{
	if (!is_of_evaluation(a, g->largest))
		return false;
	f->bytes = g->bytes;
	autopsy_at_call(a, f, g->largest);
	autopsy_say(f, SAID(evaluation_keeps_graphs, fact_bytes("bytes", g->bytes)));
	autopsy_evidence(f, SAID(evaluation_mode, fact_count("passes", a->failure->nr_begun)));
	autopsy_advise(f, SAID(evaluation_advice, fact_bytes("bytes", g->bytes)));
	return true;
}

/* Training has had backward passes, and this code never one: by the model's mode, or by what it does. */
bool autopsy_is_evaluation(const struct autopsy *a, struct autopsy_finding *f)
{
	const char *name = NULL;
	struct open_graphs g;
	bool is_consumed;

	if (!a->failure->nr_begun) /* some train a model in evaluation mode, and backward may have been to come */
		return false;
	find_open(a, &g);
	if (!g.nr_blocks || g.is_consumed || !autopsy_matters(a, g.bytes))
		return false;
	if (is_in_evaluation_mode(a, f, &g))
		return true;
	/* A name alone is believed once training is under way: its first steps may bring further models'
	 * forward. */
	if (a->step >= EVALUATION_STEPS_MIN)
		name = evaluating(a, autopsy_group(a, g.largest)->python_stack);
	is_consumed = is_line_consumed(a, g.largest);
	if (!name && (is_consumed || g.nr_calls < OPEN_CALLS_MIN || OPEN_REPEATED_PART * g.repeated_bytes < g.bytes))
		return false;
	if (is_consumed) /* a name alone */
		f->certainty = CERTAINTY_LIKELY;
	f->bytes = g.bytes;
	autopsy_at_call(a, f, g.largest);
	autopsy_say(f, SAID(evaluation_keeps_graphs, fact_bytes("bytes", g.bytes)));
	if (is_consumed)
		autopsy_evidence(f, SAID(evaluation_function, fact_count("passes", a->failure->nr_begun),
					 fact_name("function", name)));
	else
		autopsy_evidence(f, SAID(evaluation_line, fact_count("passes", a->failure->nr_begun),
					 fact_name("function", name)));
	if (g.nr_calls >= OPEN_CALLS_MIN)
		autopsy_evidence(f, SAID(evaluation_calls, fact_count("calls", g.nr_calls)));
	autopsy_advise(f, SAID(evaluation_advice, fact_bytes("bytes", g.bytes)));
	return true;
}

bool autopsy_is_graph_retention(const struct autopsy *a, struct autopsy_finding *f)
{
	struct open_graphs g;

	find_open(a, &g);
	if (g.nr_calls < OPEN_CALLS_MIN || !autopsy_matters(a, g.repeated_bytes) ||
	    NO_BACKWARD_PART * (g.repeated_bytes + g.input_bytes) < a->failure->allocated)
		return false;
	f->bytes = g.repeated_bytes;
	autopsy_at_call(a, f, g.largest);
	autopsy_say(f, SAID(graphs_without_pass, fact_bytes("bytes", f->bytes), fact_count("calls", g.nr_calls)));
	autopsy_evidence(f, SAID(graphs_of_each_call, fact_bytes("each", f->bytes / g.nr_calls),
				 fact_count("passes", a->failure->nr_begun)));
	if (g.input_bytes >= f->bytes / GRAPH_BATCHES_PART)
		autopsy_evidence(f, SAID(graphs_have_batches, fact_bytes("batches", g.input_bytes)));
	autopsy_advise(f, SAID(graphs_advice, fact_bytes("freed", f->bytes - f->bytes / g.nr_calls)));
	return true;
}

/* One that failed. */
struct attempt {
	const struct failure *ended;
	struct ended_call call;
	bool has_model; /* of its own */
};

/* What attempts that failed, and were caught, have left. */
struct attempts {
	uint64_t bytes, graph_bytes;
	size_t largest;                   /* block */
	const struct failure *of_largest; /* that ended its attempt; NULL: nothing is left */
};

static bool is_before_pass(const struct autopsy *a, size_t i, const struct failure *ended)
{
	return a->categories.block[i].life.birth.nr_begun + (ended->phase == PHASE_BACKWARD) < ended->nr_begun;
}

/* Is the block the only one of its stack that the attempt has left, and was there another after it? As batches are. */
static bool is_made_again(const struct autopsy *a, size_t block, const struct failure *ended)
{
	uint32_t nr_before = 0, nr_behind = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (autopsy_group(a, i)->python_stack != autopsy_group(a, block)->python_stack)
			continue;
		nr_behind += a->categories.block[i].life.birth.ordinal > ended->ordinal;
		nr_before += a->categories.block[i].life.birth.ordinal < ended->ordinal && !is_before_pass(a, i, ended);
	}
	return nr_before == 1 && nr_behind;
}

/*
 * Had the attempt a model of its own, which it came to use? If no step has followed, and the line of the first parameter
 * there is has made one again since, or was to when memory ran out; where it makes layer after layer between calls, it is
 * no model's beginning. With a model from before them all, what is whose cannot be told.
 */
static bool has_model(const struct autopsy *a, const struct failure *ended)
{
	const struct failure *earliest = failures_of(a->failures, a->device)->failure;
	const struct category_block *block = a->categories.block;
	size_t nr = a->categories.nr_blocks, first = 0;
	uint32_t stack;

	if ((ended->phase != PHASE_FORWARD && ended->phase != PHASE_BACKWARD && ended->phase != PHASE_OPTIMIZER) ||
	    a->failure->nr_begun > ended->nr_begun + 1)
		return false;
	while (first < nr && block[first].category != CATEGORY_PARAMETER)
		first++;
	stack = first < nr ? autopsy_group(a, first)->python_stack : TFMT_STACK_NOT_CAPTURED;
	if (stack < TFMT_STACK_FIRST || block[first].life.birth.ordinal > ended->ordinal)
		return false;
	for (size_t i = first + 1; i < nr; i++) {
		const struct lives_when *birth = &block[i].life.birth;

		if (block[i].category != CATEGORY_PARAMETER || autopsy_group(a, i)->python_stack != stack)
			continue;
		if (birth->ordinal > ended->ordinal)
			return true;
		if (birth->ordinal < earliest->ordinal && birth->nr_forwards != block[first].life.birth.nr_forwards)
			return false;
	}
	return a->failure->python_stack == stack;
}

/*
 * Was the block made by the attempt that this failure ended? The passes that had begun by then tell, its own may have
 * been the last of them: what has a graph is of it, and of the rest what was made at the line that was to try it.
 */
static bool is_of_attempt(const struct autopsy *a, size_t i, const struct attempt *attempt)
{
	const struct failure *ended = attempt->ended;
	enum category category = a->categories.block[i].category;

	if (attempt->has_model && !autopsy_is_passing(category))
		return true;
	if (is_before_pass(a, i, ended))
		return false;
	if (a->block[i].has_graph)
		return true;
	return autopsy_is_passing(category) && category != CATEGORY_WORKSPACE &&
	       autopsy_is_on_call(a, autopsy_group(a, i)->python_stack, &attempt->call) &&
	       (attempt->call.is_parted || is_made_again(a, i, ended));
}

static void find_attempts(const struct autopsy *a, struct attempts *t)
{
	const struct failure *ended = failures_of(a->failures, a->device)->failure;
	struct attempt attempt = { 0 };

	*t = (struct attempts){ 0 };
	/* Both by order: of each block the first failure after it. */
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		while (ended < a->failure && ended->ordinal < life->birth.ordinal)
			ended++;
		if (ended == a->failure)
			break;
		if (ended != attempt.ended)
			autopsy_ended_call(a, ended, &attempt.call);
		attempt.has_model = ended == attempt.ended ? attempt.has_model : has_model(a, ended);
		attempt.ended = ended;
		if (!is_of_attempt(a, i, &attempt))
			continue;
		/* Where there are graphs, they are what is shown. */
		if (!t->of_largest || (a->block[i].has_graph && !a->block[t->largest].has_graph) ||
		    (a->block[i].has_graph == a->block[t->largest].has_graph &&
		     life->size > a->categories.block[t->largest].life.size)) {
			t->largest = i;
			t->of_largest = ended;
		}
		t->bytes += life->size;
		t->graph_bytes += a->block[i].has_graph ? life->size : 0;
	}
	stack_release(&attempt.call.stack);
}

static bool say_attempts(const struct autopsy *a, struct autopsy_finding *f, const struct attempts *t)
{
	if (!t->of_largest || !autopsy_matters(a, t->bytes))
		return false;
	f->bytes = t->bytes;
	autopsy_at_call(a, f, t->largest);
	if (t->graph_bytes == t->bytes)
		autopsy_say(f, SAID(attempt_had_saved, fact_bytes("bytes", t->bytes)));
	else
		autopsy_say(f, SAID(attempt_had_made, fact_bytes("bytes", t->bytes)));
	autopsy_evidence(f, SAID(attempt_failed, fact_bytes("asked", t->of_largest->asked),
				 fact_name("phase", phase_names[t->of_largest->phase])));
	autopsy_evidence(f, SAID(attempt_is_held, NO_FACTS));
	autopsy_advise(f, SAID(attempt_advice, fact_bytes("bytes", t->bytes)));
	return true;
}

/*
 * A call failed, and what it had saved for backward is still there at a later failure: the exception that is being
 * handled, or kept, holds the frames, and they the graph.
 */
bool autopsy_is_traceback(const struct autopsy *a, struct autopsy_finding *f)
{
	struct attempts t;

	find_attempts(a, &t);
	return t.graph_bytes && say_attempts(a, f, &t);
}

/* Likewise without a graph. What earlier calls have left by the same line is asked about before. */
bool autopsy_is_held_attempt(const struct autopsy *a, struct autopsy_finding *f)
{
	struct attempts t;

	find_attempts(a, &t);
	return say_attempts(a, f, &t);
}
