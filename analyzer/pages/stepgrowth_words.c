/* SPDX-License-Identifier: MIT */
/* Sentences on what grows from step to step; see stepgrowth_words.h. */
#include "analyzer/pages/stepgrowth_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/pages/print_recording.h"
#include "analyzer/recording/basename.h"

#define READINGS_TO_TELL 4 /* of fewer, nothing is said of growth */
#define PLACE_WIDTH 42 /* of who lets go, so that its line has 80 columns */

const char *stepgrowth_each(const struct stepgrowth *g)
{
	static const enum sentence each[] = { SAY_each_step, SAY_each_call, SAY_each_events };

	return sentence_words(each[g->by]);
}

const char *stepgrowth_at(char buf[static HUMAN_MAX], const struct stepgrowth *g, double at)
{
	if (g->by == STEPGROWTH_BY_EVENTS)
		at = floor(at * STEPGROWTH_EVENTS);
	if (!(at < 1e15))
		snprintf(buf, HUMAN_MAX, "never");
	else
		human_count(buf, (uint64_t)fmax(at, 0));
	return buf;
}

struct said stepgrowth_growth(const struct stepgrowth *by, const struct stepgrowth_cause *c)
{
	const struct growth *g = &c->growth;
	struct fact slope = fact_signed_bytes("rate", llround(g->slope)), low = fact_signed_bytes("low", llround(g->slope_low));
	struct fact high = fact_signed_bytes("high", llround(g->slope_high));
	struct fact course = fact_name("course", growth_shape_names[g->shape]), since = fact_step("since", c->first_step);

	if (by->by == STEPGROWTH_BY_CALL)
		return SAID(grows_by_call, slope, low, high, course, fact_count("since", (uint64_t)fmax(c->first, 0) + 1));
	if (by->by == STEPGROWTH_BY_EVENTS)
		return SAID(grows_by_events, slope, low, high, course,
			    fact_if(c->first > 0, fact_count("since", (uint64_t)(c->first * STEPGROWTH_EVENTS))));
	if (by->is_rare)
		return SAID(grows_rarely, fact_bytes("grown", (uint64_t)fmax(c->grown_bytes, 0)), fact_count("rises", c->nr_rises),
			    fact_count("steps", by->nr_steps), since);
	return g->slope_low == g->slope_high ? SAID(grows_each_step, slope, since) :
					       SAID(grows_by_step, slope, low, high, course, since);
}

struct said stepgrowth_what(const struct stepgrowth_cause *c)
{
	struct fact kept = fact_many("kept", c->nr_kept), owner = fact_name("owner", owner_titles[c->owner]);

	if (c->nr_anew)
		return SAID(made_anew, fact_count("tensors", c->nr_anew));
	switch (c->class) {
	case STEPGROWTH_GRAPH:
		return SAID(stays_for_backward, kept, fact_count("places", c->nr_places));
	case STEPGROWTH_GRAPH_TENSORS:
		return c->in_module ? SAID(stays_by_list_or_hook, kept) : SAID(stays_with_graphs, kept);
	case STEPGROWTH_SHAPES:
		return SAID(stays_by_shape, kept);
	case STEPGROWTH_SEQUENCE:
		return SAID(stays_longer, NO_FACTS);
	case STEPGROWTH_HOOK:
		return c->has_hook ? SAID(stays_by_hook, kept, fact_flag("has_graphs", c->makes_nodes)) : SAID(stays_in_hook, kept);
	case STEPGROWTH_CONTEXT:
		return SAID(stays_in_function, kept);
	case STEPGROWTH_HOST:
		return SAID(stays_on_host, owner);
	case STEPGROWTH_DRIVER:
		return SAID(stays_outside_torch, owner);
	default:
		return SAID(stays, kept);
	}
}

struct said stepgrowth_bound(const struct stepgrowth_cause *c)
{
	if (!c->keeper.bound && !c->keeper.is_state && c->keeper.has_entries && c->class == STEPGROWTH_TENSORS)
		return SAID(keeper_may_fill, NO_FACTS);
	if (c->keeper.is_state)
		return SAID(keeper_is_state, NO_FACTS);
	if (!c->keeper.bound)
		return SAID_NOTHING;
	return SAID(keeper_fills, fact_count("entries", c->keeper.entries), fact_count("bound", c->keeper.bound),
		    fact_bytes("full", (uint64_t)llround(c->keeper.full_bytes)));
}

struct said stepgrowth_apart_note(const struct stepgrowth *g, const struct stepgrowth_cause *c, double sum, const char *place)
{
	struct fact rate = fact_signed_bytes("rate", llround(sum)), each = fact_name("each", stepgrowth_each(g));
	struct fact at = fact_name("place", *place ? place : NULL);

	if (c->fills_up)
		return SAID(note_fills_up, rate, each, at);
	if (c->is_offset)
		return SAID(note_offset, rate, each, at);
	return c->is_let_go ? SAID(note_let_go, rate, each, at) : SAID(note_follows_batch, rate, each, at);
}

struct said stepgrowth_small_note(const struct stepgrowth *g, size_t nr, double sum)
{
	struct fact places = fact_count("places", nr), rate = fact_signed_bytes("rate", llround(sum));
	struct fact each = fact_name("each", stepgrowth_each(g));

	return g->is_filled ? SAID(note_loading, places, rate, each) : SAID(note_little, places, rate, each);
}

struct said stepgrowth_none(const struct stepgrowth *g, bool is_kept)
{
	struct fact steps = fact_count("steps", g->nr_steps), kept = fact_flag("is_kept", is_kept);
	bool is_stepless = g->by != STEPGROWTH_BY_STEP, has_growth = g->nr_causes && !g->cause[0].is_offset;
	char at[HUMAN_MAX];

	if (g->nr_causes && g->cause[0].keeper.is_state)
		return SAID(growth_of_state, NO_FACTS);
	if (g->nr_causes && g->cause[0].fills_up)
		return SAID(growth_fits, NO_FACTS);
	if (has_growth && stepgrowth_is_apart(&g->cause[0]))
		return is_stepless ? SAID(growth_let_go, NO_FACTS) : SAID(growth_of_batch, NO_FACTS);
	if (is_stepless && has_growth)
		return SAID(growth_filled, NO_FACTS);
	if (is_stepless && g->total.nr_used < READINGS_TO_TELL)
		return SAID(growth_not_known, NO_FACTS);
	if (is_stepless) {
		stepgrowth_at(at, g, g->reading[g->nr_readings - 1].step);
		return g->by == STEPGROWTH_BY_CALL ? SAID(no_growth_by_call, fact_name("calls", at)) :
						     SAID(no_growth_by_events, fact_name("events", at));
	}
	return g->total.nr_used < READINGS_TO_TELL ? SAID(growth_too_few, steps, kept) : SAID(no_growth, steps, kept);
}

bool stepgrowth_site(struct stack *stack, const struct replay *m, struct replay_process *p, uint32_t python,
		    uint32_t native, const struct stack_frame **frame)
{
	struct stack_source source = replay_stack_source(m, p);
	int site;

	stack_expand(stack, &source, python, native);
	site = stack_site(stack);
	*frame = site < 0 ? NULL : &stack->frame[site];
	return *frame;
}

bool stepgrowth_caller(struct stack *stack, const struct replay *m, struct replay_process *p,
		      const struct stepgrowth_cause *c, const struct stack_frame **frame)
{
	const struct group *group = books_group(p->books, c->group);
	const struct stack_frame *site;
	int caller = -1;

	if (stepgrowth_site(stack, m, p, group->python_stack, group->native_stack, &site) && site->python)
		caller = stack_program(stack, (int)(site - stack->frame));
	*frame = caller < 0 ? site : &stack->frame[caller];
	return *frame != site;
}

const char *stepgrowth_place_text(char *buf, size_t size, const struct stack_frame *frame)
{
	struct stack_frame shown = *frame;

	shown.file = shown.file ? print_short_path(shown.file) : NULL;
	stack_frame_text(buf, size, &shown);
	if (strlen(buf) > PLACE_WIDTH && shown.file) {
		shown.file = basename_of(shown.file);
		stack_frame_text(buf, size, &shown);
	}
	if (strlen(buf) > PLACE_WIDTH)
		buf[PLACE_WIDTH] = 0;
	return buf;
}

/*
 * Is a frame the program's outermost line, of a call that had allocated these blocks itself and ended there? Whatever kept them
 * was within that call: the line is nobody's keeper.
 */
static bool is_outermost_call(const struct stack *freed, const struct stack_frame *frame, const struct replay *m,
			      struct replay_process *p, const struct stepgrowth_cause *c)
{
	const struct group *group = books_group(p->books, c->group);
	struct stack_source source = replay_stack_source(m, p);
	const struct stack_frame *first;
	struct stack stack = { 0 };
	bool is_same = false;

	if (frame != &freed->frame[freed->nr_frames - 1])
		return false;
	stack_expand(&stack, &source, group->python_stack, 0);
	first = stack.nr_frames > 1 ? &stack.frame[stack.nr_frames - 1] : NULL;
	is_same = first && first->line == frame->line && first->file && frame->file && !strcmp(first->file, frame->file);
	stack_release(&stack);
	return is_same;
}

struct said stepgrowth_keeper(const struct replay *m, struct replay_process *p, const struct stepgrowth_cause *c)
{
	struct said said = { .sentence = SAY_nothing };
	const struct stack_frame *frame;
	struct stack stack = { 0 };
	char place[STEPGROWTH_TEXT_MAX];

	if (c->class == STEPGROWTH_GRAPH)
		return SAID(keeper_is_graph, NO_FACTS);
	if (c->has_hook)
		return SAID(keeper_is_hook_or_caller, NO_FACTS);
	if (c->class == STEPGROWTH_HOOK)
		return SAID(keeper_is_hook, NO_FACTS);
	if (c->class == STEPGROWTH_CONTEXT)
		return SAID(keeper_is_context, NO_FACTS);
	if (c->nr_freed && stepgrowth_site(&stack, m, p, c->freed_stack, 0, &frame) && !is_outermost_call(&stack, frame, m, p, c))
		said = SAID(keeper_was_let_go, fact_name("place", stepgrowth_place_text(place, sizeof(place), frame)),
			    fact_count("freed", c->nr_freed), fact_count("kept", c->nr_kept));
	stack_release(&stack);
	return said;
}
