/* SPDX-License-Identifier: MIT */
/* Hooks and custom Functions by their callers; see framekind.h. */
#include "analyzer/analysis/framekind.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
	size_t n = text ? strlen(text) : 0, k = strlen(end);

	return n >= k && !strcmp(text + n - k, end);
}

/* What calls forward calls hooks as well; the name tells them apart, also of a forward that was replaced. */
static bool is_module_call(const struct stack_frame *by)
{
	return ends_with(by->file, "torch/nn/modules/module.py") &&
	       (ends_with(by->function, "_call_impl") || ends_with(by->function, "inner"));
}

/* Names are qualified from Python 3.11 on: "Net.forward". */
static bool is_hook(const struct stack_frame *f, const struct stack_frame *by)
{
	if (is_module_call(by))
		return !ends_with(f->function, "forward");
	return by->node || ends_with(by->file, "torch/utils/hooks.py");
}

enum frame_kind frame_kind_of(const struct stack *stack, int site)
{
	const struct stack_frame *f = &stack->frame[site], *by = NULL;

	for (uint32_t i = (uint32_t)site + 1; i < stack->nr_frames && !by; i++)
		if (stack->frame[i].python || stack->frame[i].node)
			by = &stack->frame[i];
	if (!by || f->from_forward || f->framework)
		return FRAME_PLAIN;
	if (ends_with(by->file, "torch/autograd/function.py"))
		return FRAME_CONTEXT;
	return is_hook(f, by) ? FRAME_HOOK : FRAME_PLAIN;
}
