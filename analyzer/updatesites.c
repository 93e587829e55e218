/* SPDX-License-Identifier: MIT */
/* Callers of optimizers, by the frames that lead there. */
#include "analyzer/updatesites.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/idtable.h"
#include "analyzer/pylines.h"

static bool is_optimizers(const struct tfmt_code *code)
{
	const char *function = strrchr(code->name, '.');

	if (strstr(code->file, "/torch/optim/"))
		return true;
	return strstr(code->file, "/torch/nn/") && !strcmp(function ? function + 1 : code->name, "zero_grad");
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

/* The frames where two stacks part, if both are of one function. */
static bool find_parting(const struct tfmt_reader *reader, uint32_t a, uint32_t b, struct tfmt_frame *of_a,
			 struct tfmt_frame *of_b)
{
	of_a->kind = of_b->kind = TFMT_FRAME_NODE;
	while (a != b) { /* parents have lower ids than their children */
		struct tfmt_frame *frame = a > b ? of_a : of_b;
		uint32_t *id = a > b ? &a : &b;

		if (!tfmt_reader_frame(reader, *id, frame) || frame->parent >= *id)
			return false;
		*id = frame->parent;
	}
	return is_python(of_a) && is_python(of_b) && of_a->a == of_b->a;
}

/* Is stack `a` called from within a loop or condition around which stack `b` is not? By the function where they part. */
static bool is_inside(const struct tfmt_reader *reader, uint32_t a, uint32_t b)
{
	struct tfmt_frame of_a, of_b;
	uint32_t column_a, column_b;

	return find_parting(reader, a, b, &of_a, &of_b) && indentation_of(reader, &of_a, &column_a) &&
	       indentation_of(reader, &of_b, &column_b) && column_a > column_b;
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
		u->inside[u->nr_callers] |= (uint32_t)is_inside(reader, caller, u->caller[i]) << i;
		u->inside[i] |= (uint32_t)is_inside(reader, u->caller[i], caller) << u->nr_callers;
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

bool updatesites_is_behind(const struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack)
{
	struct tfmt_frame site, other;
	uint32_t nr_before = 0;

	for (uint32_t i = 0; i < u->nr_callers; i++) {
		if (!find_parting(reader, u->caller[i], python_stack, &site, &other))
			continue;
		if ((int32_t)other.b < (int32_t)site.b)
			return false;
		nr_before++;
	}
	return nr_before;
}

void updatesites_release(struct updatesites *u)
{
	free(u->of_stack);
	*u = (struct updatesites){ 0 };
}
