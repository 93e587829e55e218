/* SPDX-License-Identifier: MIT */
/* Sentences on what grows from step to step; see stepgrowth_words.h. */
#include "analyzer/pages/stepgrowth_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/pages/print_recording.h"
#include "analyzer/recording/basename.h"

#define PLACE_WIDTH 42 /* of who lets go, so that its line has 80 columns */

const char *stepgrowth_rate_text(char buf[static HUMAN_MAX], double bytes)
{
	return human_signed_bytes(buf, (int64_t)llround(bytes));
}

const char *stepgrowth_unit(const struct stepgrowth *g)
{
	return g->is_by_time ? "second" : "step";
}

const char *stepgrowth_seconds_text(char buf[static HUMAN_MAX], double seconds)
{
	if (!(seconds < 1e9))
		snprintf(buf, HUMAN_MAX, "never");
	else
		human_ns(buf, (uint64_t)(fmax(seconds, 0) * 1e9));
	return buf;
}

const char *stepgrowth_growth_text(char *buf, size_t size, const struct stepgrowth_cause *c)
{
	char slope[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX], since[HUMAN_MAX];
	const struct growth *g = &c->growth;

	if (!c->first_step)
		snprintf(buf, size, "%s a second (%s to %s, 95%%), %s, since %s", stepgrowth_rate_text(slope, g->slope),
			 stepgrowth_rate_text(low, g->slope_low), stepgrowth_rate_text(high, g->slope_high), growth_shape_names[g->shape],
			 stepgrowth_seconds_text(since, c->first_s));
	else if (g->slope_low == g->slope_high)
		snprintf(buf, size, "%s in each step since step %" PRIu32, stepgrowth_rate_text(slope, g->slope), c->first_step);
	else
		snprintf(buf, size, "%s a step (%s to %s, 95%%), %s, since step %" PRIu32,
			 stepgrowth_rate_text(slope, g->slope), stepgrowth_rate_text(low, g->slope_low),
			 stepgrowth_rate_text(high, g->slope_high), growth_shape_names[g->shape], c->first_step);
	return buf;
}

const char *stepgrowth_class_text(char *buf, size_t size, const struct stepgrowth_cause *c)
{
	char kept[HUMAN_MAX];

	human_count(kept, c->nr_kept);
	switch (c->class) {
	case STEPGROWTH_GRAPH:
		snprintf(buf, size, "%s blocks of %" PRIu32 " place%s that forward keeps for backward", kept,
			 c->nr_places, c->nr_places == 1 ? "" : "s");
		break;
	case STEPGROWTH_GRAPH_TENSORS:
		snprintf(buf, size, "%s results of autograd stay%s", kept,
			 c->in_module ? ", by a list or a hook; each may hold its graph" :
					"; unless detached, each holds its graph");
		break;
	case STEPGROWTH_SHAPES:
		snprintf(buf, size, "%s tensors stay, each of another shape, as in a cache by shape", kept);
		break;
	case STEPGROWTH_SEQUENCE:
		snprintf(buf, size, "as many tensors as before, each time longer");
		break;
	case STEPGROWTH_HOOK:
		if (c->has_hook)
			snprintf(buf, size, "%s results of a module with a hook stay%s", kept,
				 c->makes_nodes ? "; undetached, each holds its graph" : "");
		else
			snprintf(buf, size, "%s tensors stay that a hook allocates", kept);
		break;
	case STEPGROWTH_CONTEXT:
		snprintf(buf, size, "%s tensors stay that a custom autograd.Function allocates", kept);
		break;
	case STEPGROWTH_HOST:
		snprintf(buf, size, "page-locked or managed host memory, taken by %s", owner_titles[c->owner]);
		break;
	case STEPGROWTH_DRIVER:
		snprintf(buf, size, "taken from the driver by %s, outside PyTorch", owner_titles[c->owner]);
		break;
	default:
		snprintf(buf, size, "%s tensors stay, one after another", kept);
	}
	return buf;
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

bool stepgrowth_kept_text(char *buf, size_t size, const struct replay *m, struct replay_process *p,
		      const struct stepgrowth_cause *c)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };
	char place[STEPGROWTH_TEXT_MAX];
	bool known = true;

	if (c->class == STEPGROWTH_GRAPH) {
		snprintf(buf, size, "kept by one graph a step, through its last result");
	} else if (c->has_hook) {
		snprintf(buf, size, "kept by its hook, which allocates nothing, or by what called the module");
	} else if (c->class == STEPGROWTH_HOOK) {
		snprintf(buf, size, "kept by a hook: its frames are on the stack");
	} else if (c->class == STEPGROWTH_CONTEXT) {
		snprintf(buf, size, "kept by a Function's context: allocated in its forward or backward");
	} else if (c->nr_freed && stepgrowth_site(&stack, m, p, c->freed_stack, 0, &frame)) {
		snprintf(buf, size, "kept by what was let go at %s: %" PRIu32 " of %" PRIu32,
			 stepgrowth_place_text(place, sizeof(place), frame), c->nr_freed, c->nr_kept);
	} else {
		known = false;
	}
	stack_release(&stack);
	return known;
}
