/* SPDX-License-Identifier: MIT */
/* Callers of optimizers, by the frames that lead there. */
#include "analyzer/training/updatesites.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/pysource/sourceloops.h"
#include "analyzer/recording/idtable.h"
#include "analyzer/stacks/pylines.h"

#define RECEIVER_MAX 64

static bool is_function(const struct tfmt_code *code, const char *name)
{
	const char *function = strrchr(code->name, '.');

	return !strcmp(function ? function + 1 : code->name, name);
}

static bool is_optimizers(const struct tfmt_code *code)
{
	if (strstr(code->file, "/torch/optim/"))
		return !strstr(code->file, "/torch/optim/swa_utils.py");
	return strstr(code->file, "/torch/nn/") && is_function(code, "zero_grad");
}

/* From the innermost frame of an optimizer to the outermost. Parents have lower ids than their children. */
struct updatesites_call updatesites_call(const struct tfmt_reader *reader, uint32_t stack)
{
	struct updatesites_call call = { 0 };
	struct tfmt_frame frame;
	struct tfmt_code code;

	for (; stack >= TFMT_STACK_FIRST && tfmt_reader_frame(reader, stack, &frame); stack = frame.parent) {
		if ((frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY) &&
		    tfmt_reader_code(reader, (uint32_t)frame.a, &code) && is_optimizers(&code)) {
			if (is_function(&code, "load_state_dict"))
				return (struct updatesites_call){ 0 }; /* it updates nothing */
			call.caller = frame.parent;
			call.inner = call.inner ? call.inner : stack;
		}
		if (frame.parent >= stack)
			break;
	}
	return call;
}

/* How far the line of a frame is indented. */
static bool indentation_of(const struct tfmt_reader *reader, const struct tfmt_frame *frame, uint32_t *column)
{
	struct tfmt_code code;

	return tfmt_reader_code(reader, (uint32_t)frame->a, &code) &&
	       pylines_indentation(&code, pylines_line(&code, (int32_t)frame->b), column);
}

static bool is_python(const struct tfmt_frame *frame)
{
	return frame->kind == TFMT_FRAME_PYTHON || frame->kind == TFMT_FRAME_PYTHON_ENTRY;
}

/* Where two stacks part: the frames, with ids, and the stack that they have in common. */
struct parting {
	struct tfmt_frame of_a, of_b;
	uint32_t id_a, id_b, common;
};

/* false: they are not of one function. */
static bool find_parting(const struct tfmt_reader *reader, uint32_t a, uint32_t b, struct parting *p)
{
	p->of_a.kind = p->of_b.kind = TFMT_FRAME_NODE;
	while (a != b) { /* parents have lower ids than their children */
		struct tfmt_frame *frame = a > b ? &p->of_a : &p->of_b;
		uint32_t *id = a > b ? &a : &b;

		*(a > b ? &p->id_a : &p->id_b) = *id;
		if (!tfmt_reader_frame(reader, *id, frame) || frame->parent >= *id)
			return false;
		*id = frame->parent;
	}
	p->common = a;
	return is_python(&p->of_a) && is_python(&p->of_b) && p->of_a.a == p->of_b.a;
}

static struct sourceloops loops_of(struct updatesites *u, const struct tfmt_reader *reader,
				   const struct tfmt_frame *frame)
{
	struct tfmt_code code;

	if (!is_python(frame) || !tfmt_reader_code(reader, (uint32_t)frame->a, &code))
		return (struct sourceloops){ 0 };
	u->sources.reader = reader;
	return sourceloops_find(&u->sources, &code, (int32_t)frame->b);
}

/* Does a function between a stack's innermost frame and its frame `outer` call on from within a loop? */
static bool has_loop_below(struct updatesites *u, const struct tfmt_reader *reader, uint32_t stack, uint32_t outer)
{
	struct tfmt_frame frame;

	for (; stack > outer && tfmt_reader_frame(reader, stack, &frame) && frame.parent < stack; stack = frame.parent)
		if (loops_of(u, reader, &frame).nr)
			return true;
	return false;
}

static bool is_subset(const struct sourceloops *of, const struct sourceloops *all)
{
	for (uint32_t i = 0; i < of->nr; i++)
		if (!sourceloops_have(all, &of->loop[i]))
			return false;
	return true;
}

/* Without the source: is the line of `a` further in? By a loop or by a condition, nobody knows. */
static bool is_further_in(const struct tfmt_reader *reader, const struct parting *p)
{
	uint32_t column_a, column_b;

	return indentation_of(reader, &p->of_a, &column_a) && indentation_of(reader, &p->of_b, &column_b) &&
	       column_a > column_b;
}

/* "self.critic" of "self.critic.zero_grad()", if a frame's line is such a call; else "". */
static void receiver_of(struct updatesites *u, const struct tfmt_reader *reader, const struct tfmt_frame *frame,
			char out[static RECEIVER_MAX])
{
	const char *line = NULL, *end, *at;
	struct tfmt_code code;
	size_t len = 0;

	*out = 0;
	if (tfmt_reader_code(reader, (uint32_t)frame->a, &code))
		line = sourcetext_line(&u->sources, code.file, pylines_line(&code, (int32_t)frame->b), &len);
	end = line ? memmem(line, len, ".zero_grad(", strlen(".zero_grad(")) : NULL;
	if (!end)
		return;
	at = end;
	while (at > line && (isalnum((unsigned char)at[-1]) || strchr("_.[]", at[-1])))
		at--;
	if (end - at < RECEIVER_MAX) {
		memcpy(out, at, (size_t)(end - at));
		out[end - at] = 0;
	}
}

/* Do two lines of one function, whose source is known, drop the gradients of different objects? */
static bool are_apart(struct updatesites *u, const struct tfmt_reader *reader, const struct parting *p)
{
	char of_a[RECEIVER_MAX], of_b[RECEIVER_MAX];

	receiver_of(u, reader, &p->of_a, of_a);
	receiver_of(u, reader, &p->of_b, of_b);
	return *of_a && *of_b && strcmp(of_a, of_b);
}

/* What sites `a` and `b`, of these stacks, are to each other. */
static void relate(struct updatesites *u, const struct tfmt_reader *reader, uint32_t a, uint32_t b)
{
	struct sourceloops of_a, of_b;
	struct parting p;
	bool same_loops;

	if (!find_parting(reader, u->caller[a], u->caller[b], &p))
		return;
	of_a = loops_of(u, reader, &p.of_a);
	of_b = loops_of(u, reader, &p.of_b);
	if (!of_a.known || !of_b.known) {
		u->inside[a] |= (uint32_t)is_further_in(reader, &p) << b;
		return;
	}
	same_loops = is_subset(&of_a, &of_b) && is_subset(&of_b, &of_a);
	if (is_subset(&of_b, &of_a) &&
	    (!same_loops || has_loop_below(u, reader, u->caller[a], p.id_a)))
		u->inside[a] |= UINT32_C(1) << b;
	u->always[a] |= (uint32_t)(same_loops && of_a.indentation > of_b.indentation) << b;
	u->before[a] |= (uint32_t)((int32_t)p.of_b.b < (int32_t)p.of_a.b) << b;
	u->apart[a] |= (uint32_t)are_apart(u, reader, &p) << b;
}

static uint32_t number_of(struct updatesites *u, const struct tfmt_reader *reader, uint32_t caller)
{
	for (uint32_t i = 0; i < u->nr_callers; i++)
		if (u->caller[i] == caller)
			return i;
	if (u->nr_callers == UPDATESITES_MAX)
		return UPDATESITES_MAX;
	u->caller[u->nr_callers] = caller;
	for (uint32_t i = 0; i < u->nr_callers; i++) {
		relate(u, reader, u->nr_callers, i);
		relate(u, reader, i, u->nr_callers);
	}
	return u->nr_callers++;
}

uint32_t updatesites_bit(struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack)
{
	uint32_t caller, number;

	if (python_stack < u->nr_stacks && u->of_stack[python_stack])
		return UINT32_C(1) << (u->of_stack[python_stack] - 1);
	caller = updatesites_call(reader, python_stack).caller;
	if (!caller)
		return 0;
	number = number_of(u, reader, caller);
	u->of_stack = idtable_grown(u->of_stack, &u->nr_stacks, python_stack, sizeof(*u->of_stack), reader);
	if (python_stack < u->nr_stacks)
		u->of_stack[python_stack] = (uint8_t)(number + 1);
	return UINT32_C(1) << number;
}

int updatesites_order(const struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack)
{
	uint32_t innermost = 0;
	struct parting p;
	int order = 0;

	for (uint32_t i = 0; i < u->nr_callers; i++) {
		bool is_ahead;

		if (!find_parting(reader, u->caller[i], python_stack, &p) || p.common < innermost)
			continue;
		is_ahead = (int32_t)p.of_b.b < (int32_t)p.of_a.b;
		order = is_ahead || (p.common == innermost && order < 0) ? -1 : 1;
		innermost = p.common;
	}
	return order;
}

void updatesites_release(struct updatesites *u)
{
	free(u->of_stack);
	sourcetext_release(&u->sources);
	*u = (struct updatesites){ 0 };
}
