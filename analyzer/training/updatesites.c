/* SPDX-License-Identifier: MIT */
/* Callers of optimizers, by the frames that lead there. */
#include "analyzer/training/updatesites.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/recording/idtable.h"
#include "analyzer/stacks/pylines.h"

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

/* "<listcomp>", "<genexpr>" and the like are codes of their own before Python 3.12, of which all is a loop's. */
static bool is_comprehension(const struct tfmt_code *code)
{
	size_t len = strlen(code->name);

	return len && code->name[len - 1] == '>' && !strstr(code->name, "<lambda>") && strcmp(code->name, "<module>");
}

/* How far in the statement stands at which a frame is, by the columns that its code object has. */
static bool column_of(const struct tfmt_reader *reader, const struct tfmt_frame *frame, uint32_t *column)
{
	struct tfmt_code code;

	return tfmt_reader_code(reader, (uint32_t)frame->a, &code) && pylines_indentation(&code, (int32_t)frame->b, column);
}

/* A library's functions look at much before they call on, and with what they look at they differ. */
static bool is_library(const struct tfmt_code *code)
{
	return strstr(code->file, "/site-packages/") || strstr(code->file, "/dist-packages/");
}

/* How much further in than the function's body, a column for a comprehension's own. Of a library's it is not asked. */
static uint32_t depth_of(const struct tfmt_reader *reader, const struct tfmt_frame *frame)
{
	uint32_t column, body;
	struct tfmt_code code;

	if (!is_python(frame) || !tfmt_reader_code(reader, (uint32_t)frame->a, &code) || is_library(&code))
		return 0;
	if (is_comprehension(&code))
		return 1;
	if (!pylines_indentation(&code, (int32_t)frame->b, &column) || !pylines_body(&code, &body) || column < body)
		return 0;
	return column - body;
}

/* The same of all functions between a stack's innermost frame and its frame `outer`. */
static uint64_t depth_below(const struct tfmt_reader *reader, uint32_t stack, uint32_t outer)
{
	struct tfmt_frame frame;
	uint64_t depth = 0;

	for (; stack > outer && tfmt_reader_frame(reader, stack, &frame) && frame.parent < stack; stack = frame.parent)
		depth += depth_of(reader, &frame);
	return depth;
}

/* What sites `a` and `b`, of these stacks, are to each other. */
static void relate(struct updatesites *u, const struct tfmt_reader *reader, uint32_t a, uint32_t b)
{
	uint32_t column_a, column_b;
	bool is_further;
	struct parting p;

	if (!find_parting(reader, u->caller[a], u->caller[b], &p) || !column_of(reader, &p.of_a, &column_a) ||
	    !column_of(reader, &p.of_b, &column_b))
		return;
	is_further = column_a > column_b ||
		     (column_a == column_b &&
		      depth_below(reader, u->caller[a], p.id_a) > depth_below(reader, u->caller[b], p.id_b));
	u->inside[a] |= (uint32_t)is_further << b;
	u->before[a] |= (uint32_t)((int32_t)p.of_b.b < (int32_t)p.of_a.b) << b;
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

#define OF_NONE UINT8_MAX /* the stack passes no optimizer */

static uint32_t bit_of(uint32_t of_stack)
{
	return of_stack == OF_NONE ? 0 : UINT32_C(1) << (of_stack - 1);
}

uint32_t updatesites_bit(struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack)
{
	uint32_t caller, number;

	if (python_stack < u->nr_stacks && u->of_stack[python_stack])
		return bit_of(u->of_stack[python_stack]);
	caller = updatesites_call(reader, python_stack).caller;
	number = caller ? number_of(u, reader, caller) + 1 : OF_NONE;
	u->of_stack = idtable_grown(u->of_stack, &u->nr_stacks, python_stack, sizeof(*u->of_stack), reader);
	if (python_stack < u->nr_stacks)
		u->of_stack[python_stack] = (uint8_t)number;
	return bit_of(number);
}

void updatesites_drop(struct updatesites *u, const struct tfmt_reader *reader, uint32_t python_stack, uint32_t born_at)
{
	uint32_t site = updatesites_bit(u, reader, python_stack), all;

	u->droppers = idtable_grown(u->droppers, &u->nr_born, born_at, sizeof(*u->droppers), reader);
	if (!site || born_at >= u->nr_born || u->droppers[born_at] & site)
		return;
	all = u->droppers[born_at] |= site;
	for (uint32_t k = 0; k <= UPDATESITES_MAX; k++)
		if (all >> k & 1)
			u->alike[k] |= all;
}

uint32_t updatesites_apart(const struct updatesites *u, uint32_t number)
{
	uint32_t drop = 0;

	for (uint32_t k = 0; k <= UPDATESITES_MAX; k++)
		drop |= u->alike[k];
	return u->alike[number] ? drop & ~u->alike[number] : 0;
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
	free(u->droppers);
	*u = (struct updatesites){ 0 };
}
