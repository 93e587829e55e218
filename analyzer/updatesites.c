/* SPDX-License-Identifier: MIT */
/* Callers of optimizers, by the frames that lead there. */
#include "analyzer/updatesites.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/idtable.h"

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

static uint32_t number_of(struct updatesites *u, uint32_t caller)
{
	for (uint32_t i = 0; i < u->nr_callers; i++)
		if (u->caller[i] == caller)
			return i;
	if (u->nr_callers == UPDATESITES_MAX)
		return UPDATESITES_MAX;
	u->caller[u->nr_callers] = caller;
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
	number = number_of(u, caller);
	u->of_stack = idtable_grown(u->of_stack, &u->nr_stacks, python_stack, sizeof(*u->of_stack), reader);
	if (python_stack < u->nr_stacks)
		u->of_stack[python_stack] = (uint8_t)(number + 1);
	return UINT32_C(1) << number;
}

void updatesites_release(struct updatesites *u)
{
	free(u->of_stack);
	*u = (struct updatesites){ 0 };
}
