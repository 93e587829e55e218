/* SPDX-License-Identifier: MIT */
/* Causes: what attempts that ran out of memory, and were caught, have left. */
#include "analyzer/oom/autopsy_attempts.h"

#include "analyzer/names/groupkeeper.h"
#include "analyzer/oom/autopsy_causes.h"

/* One that failed. */
struct attempt {
	const struct failure *ended;
	struct ended_call call;
	bool has_model; /* of its own */
};

static bool is_before_pass(const struct autopsy *a, size_t i, const struct failure *ended)
{
	return a->categories.block[i].life.birth.nr_begun + (ended->phase == PHASE_BACKWARD) < ended->nr_begun;
}

/* Is the block the only one of its stack that the attempt has left, and was there another after it? As batches are. */
static bool is_made_again(const struct autopsy *a, size_t block, const struct failure *ended)
{
	uint32_t nr_before = 0, nr_later = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (autopsy_group(a, i)->python_stack != autopsy_group(a, block)->python_stack)
			continue;
		nr_later += a->categories.block[i].life.birth.ordinal > ended->ordinal;
		nr_before += a->categories.block[i].life.birth.ordinal < ended->ordinal && !is_before_pass(a, i, ended);
	}
	return nr_before == 1 && nr_later;
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

/* Has a census seen that a call that waits holds it, or a container, and no exception? */
static bool is_held_elsewhere(const struct autopsy *a, size_t i)
{
	struct suspended s;
	struct named named;

	return namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM) &&
	       (suspended_find(&s, &named) || (named.name.root != ROOT_EXCEPTION && named_is_in_container(&named)));
}

/*
 * Was the block made by the attempt that this failure ended? The passes that had begun by then tell, its own may have
 * been the last of them: what has a graph is of it, and of the rest what was made at the line that was to try it.
 */
static bool is_of_attempt(const struct autopsy *a, size_t i, const struct attempt *attempt)
{
	const struct failure *ended = attempt->ended;
	enum category category = a->categories.block[i].category;

	if (attempt->has_model && !moment_is_passing(category))
		return true;
	if (is_before_pass(a, i, ended) || is_held_elsewhere(a, i))
		return false;
	if (a->block[i].has_graph)
		return autopsy_begins_as_call(a, autopsy_group(a, i)->python_stack, &attempt->call);
	return moment_is_passing(category) && category != CATEGORY_WORKSPACE &&
	       autopsy_is_on_call(a, autopsy_group(a, i)->python_stack, &attempt->call) &&
	       (attempt->call.is_parted || is_made_again(a, i, ended));
}

void autopsy_find_attempts(struct autopsy *a)
{
	const struct failure *ended = failures_of(a->failures, a->device)->failure;
	struct autopsy_attempts *t = &a->attempts;
	struct attempt attempt = { 0 };

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

/*
 * Where several threads or tasks ask, one of them fails, and what another has made is there: nobody keeps it by an exception. Has a census seen
 * none that leads to a block, or do others than exceptions lead to more of the graphs?
 */
static bool is_refuted(const struct autopsy *a)
{
	uint64_t by_exceptions = 0, by_others = 0;

	for (size_t i = 0; i < a->holders.nr_groups; i++) {
		const struct namegroup *g = &a->holders.group[i];

		if (g->is_named && g->named.name.root == ROOT_EXCEPTION)
			by_exceptions += g->nodes;
		else if (g->is_named)
			by_others += g->nodes;
	}
	return a->is_seen_now && (!a->is_exception_seen || (2 * a->attempts.graph_bytes > a->attempts.bytes && by_others > by_exceptions));
}

static bool say_attempts(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_attempts *t = &a->attempts;

	if (!t->of_largest || !autopsy_matters(a, t->bytes))
		return false;
	if (is_refuted(a)) {
		f->aside = SAID(aside_no_exception, fact_name("cause", f->cause), fact_bytes("bytes", t->bytes));
		return false;
	}
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
	return a->attempts.graph_bytes && say_attempts(a, f);
}

/* Likewise without a graph. What earlier calls have left by the same line is asked about before. */
bool autopsy_is_held_attempt(const struct autopsy *a, struct autopsy_finding *f)
{
	return say_attempts(a, f);
}
