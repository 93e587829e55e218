/* SPDX-License-Identifier: MIT */
/* Hooks and custom Functions by their callers; see framekind.h. */
#include "analyzer/stacks/framekind.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
	size_t n = text ? strlen(text) : 0, k = strlen(end);

	return n >= k && !strcmp(text + n - k, end);
}

/* What calls forward calls hooks as well; the name tells them apart, also of a forward that was replaced. */
bool frame_wraps_module(const struct stack_frame *by)
{
	return ends_with(by->file, "torch/nn/modules/module.py") &&
	       (ends_with(by->function, "_call_impl") || ends_with(by->function, "inner"));
}

/* Names are qualified from Python 3.11 on: "Net.forward". */
static bool is_hook(const struct stack_frame *f, const struct stack_frame *by)
{
	if (frame_wraps_module(by))
		return !ends_with(f->function, "forward");
	return by->node || ends_with(by->file, "torch/utils/hooks.py");
}

/* The next Python frame or node from `from` on; nr_frames: there is none. */
static uint32_t next_frame(const struct stack *stack, uint32_t from)
{
	while (from < stack->nr_frames && !stack->frame[from].python && !stack->frame[from].node)
		from++;
	return from;
}

enum frame_kind frame_kind_of(const struct stack *stack, int site)
{
	uint32_t i = (uint32_t)site, by = next_frame(stack, i + 1);

	for (; by < stack->nr_frames; i = by, by = next_frame(stack, i + 1)) {
		const struct stack_frame *f = &stack->frame[i], *caller = &stack->frame[by];

		if (f->node || f->from_forward)
			return FRAME_PLAIN;
		if (f->framework)
			continue;
		if (ends_with(caller->file, "torch/autograd/function.py"))
			return FRAME_CONTEXT;
		if (is_hook(f, caller))
			return FRAME_HOOK;
		if (frame_wraps_module(caller))
			return FRAME_PLAIN;
	}
	return FRAME_PLAIN;
}

/*
 * A module without hooks is called in a short cut. Else its forward is called by a function within Module._call_impl(), of
 * PyTorch as it is now; of older ones nothing tells.
 */
enum frame_module frame_module_of(const struct stack *stack)
{
	enum frame_module found = FRAME_NO_MODULE;

	for (uint32_t i = next_frame(stack, 0); i < stack->nr_frames; i = next_frame(stack, i + 1)) {
		const struct stack_frame *f = &stack->frame[i];

		if (f->node || f->from_forward)
			return FRAME_NO_MODULE;
		if (!frame_wraps_module(f))
			continue;
		if (ends_with(f->function, "inner"))
			return found == FRAME_NO_MODULE ? FRAME_HOOKED : FRAME_WITHIN_HOOKED;
		found = FRAME_MODULE;
	}
	return found;
}

uint32_t frame_hooked_call(const struct stack *stack)
{
	uint32_t i = next_frame(stack, 0);

	while (i < stack->nr_frames && !(frame_wraps_module(&stack->frame[i]) && ends_with(stack->frame[i].function, "inner")))
		i = next_frame(stack, i + 1);
	return i;
}
