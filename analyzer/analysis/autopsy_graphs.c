/* SPDX-License-Identifier: MIT */
/* Causes: graphs of autograd that no backward pass has used up, and outputs of calls that nothing needs any more. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis/autopsy_causes.h"
#include "analyzer/ui/human.h"

#define STEPS_MIN 4 /* of training, before the name of a function is believed */
#define CALLS_MIN 3
#define OUTPUTS_MIN 8           /* of one line: fewer are chance */
#define STACKS_MAX (1u << 26)   /* many times what a recorder makes */

/* Forward's blocks with a graph, behind the last backward pass. */
struct open_graphs {
	uint64_t bytes;
	uint32_t nr_blocks;
	uint32_t nr_calls;    /* as often as a batch was made for them */
	uint32_t nr_repeated; /* blocks of stacks that are there as often */
	uint64_t repeated_bytes;
	size_t largest;   /* block */
	bool is_consumed; /* some of their stacks have had a backward before */
};

static bool is_open(const struct autopsy *a, size_t i)
{
	const struct life *life = &a->categories.block[i].life;

	return life->birth.nr_begun == a->failure->nr_begun && a->failure->nr_begun == life->birth.nr_ended;
}

/* How many live blocks are of each group: an array by group, to be freed; NULL without memory. */
static uint32_t *count_groups(const struct autopsy *a, bool graphs)
{
	uint32_t *count = calloc(a->device->process->books.groups.nr_groups + 1, sizeof(*count));

	for (size_t i = 0; count && i < a->categories.nr_blocks; i++)
		if (is_open(a, i) && a->block[i].has_graph == graphs)
			count[a->categories.block[i].life.group]++;
	return count;
}

/* A batch is made outside of forward and is there as often as forward was called. */
static uint32_t most_inputs(const struct autopsy *a)
{
	uint32_t *count = count_groups(a, false), most = 0;

	for (size_t i = 0; count && i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];

		if (is_open(a, i) && b->category != CATEGORY_PARAMETER && !a->block[i].has_graph &&
		    b->life.birth.phase != PHASE_FORWARD && b->life.birth.phase != PHASE_BACKWARD &&
		    b->life.birth.phase != PHASE_OPTIMIZER && count[b->life.group] > most)
			most = count[b->life.group];
	}
	free(count);
	return most;
}

static void find_open(const struct autopsy *a, struct open_graphs *g)
{
	uint32_t *count = count_groups(a, true);

	*g = (struct open_graphs){ .nr_calls = most_inputs(a) };
	for (size_t i = 0; count && i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		const struct lives_fates *fates = autopsy_fates(a, i);

		if (!is_open(a, i) || !a->block[i].has_graph)
			continue;
		if (!g->nr_blocks++ || life->size > a->categories.block[g->largest].life.size)
			g->largest = i;
		g->bytes += life->size;
		g->is_consumed |= fates && fates->nr[FATE_INTO_PASS];
		if (count[life->group] + 1 >= g->nr_calls) {
			g->nr_repeated++;
			g->repeated_bytes += life->size;
		}
	}
	free(count);
}

/* Of a stack's frames the function that is named for trying a model out; NULL: none. */
static const char *evaluating(const struct autopsy *a, uint32_t python_stack)
{
	static const char *const names[] = { "eval", "valid", "test", "predict", "infer", "generate" };
	struct stack_source source = model_stack_source(a->model, a->device->process);
	struct stack stack = { 0 };
	const char *found = NULL;

	if (!stack_expand(&stack, &source, python_stack, 0))
		for (uint32_t i = 0; i < stack.nr_frames && !found; i++)
			for (size_t k = 0; k < sizeof(names) / sizeof(*names) && !found; k++)
				if (stack.frame[i].python && !stack.frame[i].framework &&
				    stack.frame[i].function && strstr(stack.frame[i].function, names[k]))
					found = stack.frame[i].function;
	stack_release(&stack);
	return found;
}

/* Training has had backward passes, and this code never one. */
bool autopsy_is_evaluation(const struct autopsy *a, struct autopsy_finding *f)
{
	char size[HUMAN_MAX];
	const char *name = NULL;
	struct open_graphs g;

	if (!a->failure->nr_begun)
		return false;
	find_open(a, &g);
	if (!g.nr_blocks || g.is_consumed || !autopsy_matters(a, g.bytes))
		return false;
	/* A name alone is believed once training is under way: its first steps may bring further models'
	 * forward. */
	if (a->step >= STEPS_MIN)
		name = evaluating(a, autopsy_group(a, g.largest)->python_stack);
	if (!name && (g.nr_calls < CALLS_MIN || 2 * g.repeated_bytes < g.bytes))
		return false;
	f->bytes = g.bytes;
	autopsy_at_place(a, f, a->block[g.largest].place);
	autopsy_say(f, "%s are graphs of calls of the model that no backward pass follows.",
		    human_bytes(size, g.bytes));
	autopsy_evidence(f, "%" PRIu32 " backward passes went before, none for what this line makes%s%s",
			 a->failure->nr_begun, name ? "; it runs in " : "", name ? name : "");
	if (g.nr_calls >= CALLS_MIN)
		autopsy_evidence(f, "about %" PRIu32 " calls are kept", g.nr_calls);
	autopsy_advise(f, "with torch.no_grad() around it %s are not kept", human_bytes(size, g.bytes));
	return true;
}

bool autopsy_is_graph_retention(const struct autopsy *a, struct autopsy_finding *f)
{
	char size[HUMAN_MAX], each[HUMAN_MAX];
	struct open_graphs g;

	find_open(a, &g);
	if (g.nr_calls < CALLS_MIN || !autopsy_matters(a, g.repeated_bytes) ||
	    2 * g.repeated_bytes < a->failure->allocated)
		return false;
	f->bytes = g.repeated_bytes;
	autopsy_at_place(a, f, a->block[g.largest].place);
	autopsy_say(f, "%s are the graphs of %" PRIu32 " calls of the model without a backward pass.",
		    human_bytes(size, f->bytes), g.nr_calls);
	autopsy_evidence(f, "each call leaves %s; %" PRIu32 " backward passes have been seen",
			 human_bytes(each, f->bytes / g.nr_calls), a->failure->nr_begun);
	autopsy_advise(f, "a backward pass for each batch, or .item() of its loss, frees %s",
		       human_bytes(size, f->bytes - f->bytes / g.nr_calls));
	return true;
}

/*
 * A call failed, and what it had saved for backward is still there at the next failure, without a backward
 * pass between them: the exception that is being handled, or kept, holds the frames, and they the graph.
 */
bool autopsy_is_traceback(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failures_of_device *of = failures_of(a->failures, a->device);
	const struct failure *first = of->nr_failures > 1 ? a->failure - 1 : NULL;
	char size[HUMAN_MAX], asked[HUMAN_MAX];
	uint64_t bytes = 0;
	size_t largest = 0;

	if (!first || first->handled || first->nr_begun != a->failure->nr_begun)
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;

		if (!is_open(a, i) || !a->block[i].has_graph || life->birth.ordinal > first->ordinal)
			continue;
		if (!bytes || life->size > a->categories.block[largest].life.size)
			largest = i;
		bytes += life->size;
	}
	if (!autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	autopsy_at_place(a, f, a->block[largest].place);
	autopsy_say(f, "%s are what an earlier attempt, that had failed too, had saved for backward.",
		    human_bytes(size, bytes));
	autopsy_evidence(f, "it had asked for %s; no backward pass began between the two failures",
			 human_bytes(asked, first->asked));
	autopsy_evidence(f, "an exception holds the frames it passed through: until its except block ends, and "
			    "longer where something keeps it");
	autopsy_advise(f, "trying again behind the except block, with no list or variable that keeps the "
			  "exception, has %s more", human_bytes(size, bytes));
	return true;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* Where the batch at hand was made, as an ordinal: the latest block from outside of forward, backward and optimizer. */
static uint64_t latest_batch(const struct autopsy *a)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct lives_when *birth = &a->categories.block[i].life.birth;

		if (is_open(a, i) && (birth->phase == PHASE_OTHER || birth->phase == PHASE_INIT) && birth->ordinal > latest)
			latest = birth->ordinal;
	}
	return latest;
}

/* Made by forward without a graph, since the latest backward pass and for an earlier batch. */
static bool is_kept_output(const struct autopsy *a, size_t i, uint64_t batch)
{
	const struct life *life = &a->categories.block[i].life;

	return is_open(a, i) && !a->block[i].has_graph && life->birth.phase == PHASE_FORWARD && life->birth.ordinal < batch;
}

/* How often one line, outside of forward, backward and optimizer, has made tensors that were freed soon: batches. */
static uint32_t most_batches(const struct autopsy *a)
{
	const struct books *books = &a->device->process->books;
	uint32_t nr_stacks = 0, most = 0, *nr;

	for (uint32_t i = 0; i < books->groups.nr_groups; i++)
		if (books->groups.group[i].tensor && books->groups.group[i].python_stack >= nr_stacks)
			nr_stacks = books->groups.group[i].python_stack + 1;
	nr = nr_stacks && nr_stacks <= STACKS_MAX ? calloc(nr_stacks, sizeof(*nr)) : NULL;
	for (uint32_t i = 0; nr && i < books->groups.nr_groups && i < books->lives->nr_fates; i++) {
		const struct group *g = &books->groups.group[i];

		if (!g->tensor || g->device != a->device->ordinal || (g->phase != PHASE_OTHER && g->phase != PHASE_INIT))
			continue;
		nr[g->python_stack] += books->lives->fates[i].nr[FATE_SHORT];
		if (nr[g->python_stack] > most)
			most = nr[g->python_stack];
	}
	free(nr);
	return most;
}

/* Without a backward pass there are no steps: what stays is told by batches that have come and gone meanwhile. */
bool autopsy_is_kept_outputs(const struct autopsy *a, struct autopsy_finding *f)
{
	struct outputs {
		uint64_t bytes;
		uint32_t nr;
	} *of = calloc(a->nr_places + 1, sizeof(*of)), *most = of;
	uint64_t batch = latest_batch(a);
	char size[HUMAN_MAX], each[HUMAN_MAX];
	uint32_t nr_batches = 0;

	if (!of)
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		struct outputs *one = &of[a->block[i].place];

		if (!is_kept_output(a, i, batch))
			continue;
		one->bytes += a->categories.block[i].life.size;
		one->nr++;
		if (one->bytes > most->bytes)
			most = one;
	}
	if (most->nr >= OUTPUTS_MIN && autopsy_matters(a, most->bytes))
		nr_batches = most_batches(a);
	if (nr_batches >= OUTPUTS_MIN) {
		f->bytes = most->bytes;
		autopsy_at_place(a, f, (size_t)(most - of));
		autopsy_say(f, "%s are outputs of earlier calls of the model that something keeps.",
			    human_bytes(size, most->bytes));
		autopsy_evidence(f, "%" PRIu32 " tensors of this line, %s each on average; %" PRIu32
				 " batches have come and gone meanwhile",
				 most->nr, human_bytes(each, most->bytes / most->nr), nr_batches);
		autopsy_advise(f, "kept on the host, or reduced at once, they free %s here", human_bytes(size, most->bytes));
	}
	free(of);
	return nr_batches >= OUTPUTS_MIN;
}
