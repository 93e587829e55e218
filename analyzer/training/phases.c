/* SPDX-License-Identifier: MIT */
/* Phases of training by frames of PyTorch. */
#include "analyzer/training/phases.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/recording/idtable.h"

const char *const phase_names[NR_PHASES] = {
	[PHASE_OTHER] = "other",       [PHASE_INIT] = "init",           [PHASE_FORWARD] = "forward",
	[PHASE_BACKWARD] = "backward", [PHASE_OPTIMIZER] = "optimizer",
};

#define PHASE_STOP NR_PHASES /* nor do the frames outside of it: other */
#define UPDATE PHASES_UPDATE /* beside a phase: parameters are being updated */

/*
 * The first row that fits a frame holds: a part of its file's path, and its function without class (NULL:
 * any, and PHASE_OTHER: the frame tells nothing).
 */
static const struct {
	const char *file, *function;
	unsigned phase;
} rows[] = {
	{ "", "closure", PHASE_STOP }, /* what an optimizer's step calls for the loss is not its own work */
	{ "/torch/optim/", "__init__", PHASE_OTHER },
	{ "/torch/optim/", "zero_grad", PHASE_OPTIMIZER },
	{ "/torch/optim/", "load_state_dict", PHASE_OPTIMIZER }, /* and what it calls for each parameter */
	{ "/torch/optim/", "cast", PHASE_OPTIMIZER },
	{ "/torch/optim/", "_cast", PHASE_OPTIMIZER },
	{ "/torch/optim/", "_process_value_according_to_param_policy", PHASE_OPTIMIZER },
	{ "/torch/optim/swa_utils.py", NULL, PHASE_OPTIMIZER }, /* averages them */
	{ "/torch/optim/", NULL, PHASE_OPTIMIZER | UPDATE }, /* each step passes a wrapper there */
	{ "/amp/grad_scaler.py", "scale", PHASE_FORWARD }, /* of the loss */
	{ "/amp/grad_scaler.py", "unscale_", PHASE_OPTIMIZER },
	{ "/amp/grad_scaler.py", "step", PHASE_OPTIMIZER },
	{ "/amp/grad_scaler.py", "update", PHASE_OPTIMIZER },
	{ "/torch/nn/utils/clip_grad.py", NULL, PHASE_OPTIMIZER },
	{ "/torch/nn/", "zero_grad", PHASE_OPTIMIZER },
	{ "/torch/nn/init.py", NULL, PHASE_INIT },
	{ "/torch/nn/parameter.py", NULL, PHASE_INIT },
	{ "/torch/nn/", "__init__", PHASE_INIT },
	{ "/torch/nn/", "reset_parameters", PHASE_INIT },
	{ "/torch/nn/modules/module.py", "_call_impl", PHASE_FORWARD },
	{ "/torch/nn/modules/module.py", "_wrapped_call_impl", PHASE_FORWARD },
	{ "/torch/nn/modules/module.py", "inner", PHASE_FORWARD }, /* of _call_impl, where there are hooks */
	{ "/torch/nn/modules/module.py", NULL, PHASE_INIT },       /* to, load_state_dict, register_buffer, ... */
	{ "/torch/nn/", "_apply", PHASE_INIT }, /* a layer's own part of to() */
	{ "/torch/nn/modules/rnn.py", "flatten_parameters", PHASE_OTHER }, /* called by to(), or in a forward */
	{ "/torch/nn/modules/rnn.py", "_init_flat_weights", PHASE_OTHER },
	{ "/torch/nn/", NULL, PHASE_FORWARD },
};

static uint8_t phase_of_code(const struct tfmt_code *code)
{
	const char *function = strrchr(code->name, '.');

	function = function ? function + 1 : code->name;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strstr(code->file, rows[i].file) &&
		    (!rows[i].function || !strcmp(function, rows[i].function)))
			return (uint8_t)rows[i].phase;
	}
	return PHASE_OTHER;
}

static uint8_t phase_of_frame(const struct phases *p, const struct tfmt_frame *frame)
{
	struct tfmt_code code;

	if (frame->kind == TFMT_FRAME_NODE)
		return PHASE_BACKWARD;
	if ((frame->kind != TFMT_FRAME_PYTHON && frame->kind != TFMT_FRAME_PYTHON_ENTRY) ||
	    !tfmt_reader_code(p->reader, (uint32_t)frame->a, &code))
		return PHASE_OTHER;
	return phase_of_code(&code);
}

static bool is_known(const struct phases *p, uint32_t stack)
{
	return p->of_stack[stack].told;
}

/* What an event is of, by what its stack tells, whether its thread is in a backward pass, and whether it makes nodes. */
static uint8_t phase_of_event(uint8_t told, bool in_pass, bool makes_nodes)
{
	uint8_t phase = (uint8_t)(told & ~UPDATE);

	/*
	 * In a backward pass only an optimizer is something else: one that steps as soon as a gradient is
	 * there.
	 */
	if (phase != PHASE_OPTIMIZER && in_pass)
		phase = PHASE_BACKWARD;
	/* No optimizer makes nodes, but what its step calls for the loss does. */
	else if ((phase == PHASE_OTHER || phase == PHASE_OPTIMIZER) && makes_nodes)
		phase = PHASE_FORWARD;
	if (phase == PHASE_OPTIMIZER)
		phase |= told & UPDATE;
	if (phase == PHASE_FORWARD || phase == PHASE_BACKWARD)
		phase |= PHASES_BEGUN;
	return phase;
}

static struct phases_stack events_of(uint8_t told)
{
	struct phases_stack s = { .told = told | PHASES_KNOWN };

	for (int i = 0; i < 4; i++)
		s.event[i / 2][i % 2] = phase_of_event(told, i / 2, i % 2);
	return s;
}

/*
 * What the frames of a stack tell, a phase and UPDATE: the innermost that tells anything. Parents have lower ids
 * than their children.
 */
static uint8_t phase_of_stack(struct phases *p, uint32_t leaf)
{
	uint8_t phase = PHASE_OTHER;
	struct tfmt_frame frame;
	uint32_t id = leaf;

	if (leaf < TFMT_STACK_FIRST || !tfmt_reader_frame(p->reader, leaf, &frame))
		return PHASE_OTHER;
	p->of_stack = idtable_grown(p->of_stack, &p->nr_stacks, leaf, sizeof(*p->of_stack), p->reader);
	if (leaf >= p->nr_stacks)
		return PHASE_OTHER;
	while (id >= TFMT_STACK_FIRST && !is_known(p, id) && tfmt_reader_frame(p->reader, id, &frame)) {
		phase = phase_of_frame(p, &frame);
		if (phase != PHASE_OTHER || frame.parent >= id)
			break;
		id = frame.parent;
	}
	phase = phase == PHASE_STOP ? PHASE_OTHER : phase;
	if (id >= TFMT_STACK_FIRST && is_known(p, id))
		phase = (uint8_t)(p->of_stack[id].told & ~PHASES_KNOWN);
	for (uint32_t i = leaf; i > id; i = frame.parent) {
		p->of_stack[i] = events_of(phase);
		if (!tfmt_reader_frame(p->reader, i, &frame))
			break;
	}
	if (id >= TFMT_STACK_FIRST)
		p->of_stack[id] = events_of(phase);
	return phase;
}

/* NULL if there is no memory. */
static struct phases_thread *thread_of(struct phases *p, uint32_t thread)
{
	p->thread = idtable_grown(p->thread, &p->nr_threads, thread, sizeof(*p->thread), p->reader);
	return thread < p->nr_threads ? &p->thread[thread] : NULL;
}

/* ---- named by the program --------------------------------------------------------------------- */

/* Names of ranges, their letters alone. */
static const struct {
	const char *letters;
	unsigned event;
} range_names[] = {
	{ "forward", PHASE_FORWARD | PHASES_BEGUN },         { "fwd", PHASE_FORWARD | PHASES_BEGUN },
	{ "forwardpass", PHASE_FORWARD | PHASES_BEGUN },     { "forwardcompute", PHASE_FORWARD | PHASES_BEGUN },
	{ "backward", PHASE_BACKWARD | PHASES_BEGUN },       { "bwd", PHASE_BACKWARD | PHASES_BEGUN },
	{ "backwardpass", PHASE_BACKWARD | PHASES_BEGUN },   { "backwardcompute", PHASE_BACKWARD | PHASES_BEGUN },
	{ "optimizer", PHASE_OPTIMIZER | UPDATE },           { "opt", PHASE_OPTIMIZER | UPDATE },
	{ "optimizerstep", PHASE_OPTIMIZER | UPDATE },       { "optstep", PHASE_OPTIMIZER | UPDATE },
};

/* What a range of this name says of the events in it, 0 if nothing: "Optimizer.step", "forward 17". */
static uint8_t phase_named(const char *name)
{
	char letters[24];
	size_t len = 0;

	for (; *name && len < sizeof(letters) - 1; name++)
		if (isalpha((unsigned char)*name))
			letters[len++] = (char)tolower((unsigned char)*name);
	letters[len] = 0;
	for (size_t i = 0; i < sizeof(range_names) / sizeof(*range_names); i++)
		if (!strcmp(letters, range_names[i].letters))
			return (uint8_t)range_names[i].event;
	return 0;
}

static void enter_range(struct phases_thread *t, const char *name)
{
	uint8_t named = t->nr_ranges < PHASES_RANGES_MAX ? phase_named(name) : 0;

	if (t->nr_ranges < PHASES_RANGES_MAX)
		t->outer[t->nr_ranges] = t->named;
	t->nr_ranges++;
	t->named = named ? named : t->named;
}

static void leave_range(struct phases_thread *t)
{
	if (!t->nr_ranges)
		return; /* it was entered before the recording began */
	t->nr_ranges--;
	if (t->nr_ranges < PHASES_RANGES_MAX)
		t->named = t->outer[t->nr_ranges];
}

/* What an event changes of its thread, but for its passes. */
static void follow(struct phases *p, struct phases_thread *t, const struct tfmt_event *ev)
{
	if (ev->kind == TFMT_RANGE_PUSH)
		enter_range(t, tfmt_reader_string(p->reader, (uint32_t)ev->address));
	else if (ev->kind == TFMT_RANGE_POP)
		leave_range(t);
	else if (ev->kind == TFMT_LOST)
		*t = (struct phases_thread){ .passes = 0 };
}

/* ---- all of them ------------------------------------------------------------------------------ */

/* An event that changes passes, is of a checkpoint, or whose thread or stack has not been seen before. */
enum phase phases_next_of_all(struct phases *p, const struct tfmt_event *ev)
{
	bool passing = ev->kind == TFMT_PHASE_BEGIN || ev->kind == TFMT_PHASE_END;
	struct phases_thread *t = thread_of(p, ev->thread);
	struct phases_stack told;
	bool in_pass;

	p->is_update = false;
	if (t && passing && ev->address == TFMT_PHASE_BACKWARD) {
		/* As the event says, not counted: one that was lost would leave the thread in a pass for ever. */
		t->passes = (uint32_t)ev->aux + (ev->kind == TFMT_PHASE_BEGIN);
		p->has_begun = true;
		return PHASE_BACKWARD;
	}
	if (t)
		follow(p, t, ev);
	in_pass = t && t->passes;
	if (ev->before) { /* what came between it and the event before is not there to be followed */
		p->has_begun |= ev->flags & TFMT_FLAG_BEGUN;
		in_pass = ev->flags & TFMT_FLAG_IN_BACKWARD;
	}
	told = events_of(phase_of_stack(p, ev->python_stack));
	return phases_take(p, &told, ev, in_pass, t ? t->named : 0);
}

void phases_damaged(struct phases *p)
{
	if (p->thread)
		memset(p->thread, 0, p->nr_threads * sizeof(*p->thread));
}

void phases_release(struct phases *p)
{
	free(p->of_stack);
	free(p->thread);
	*p = (struct phases){ .reader = p->reader };
}
