/* SPDX-License-Identifier: MIT */
/* Stack ids to frames: Python through line tables, native through symbols. */
#include "analyzer/stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/owner.h"
#include "analyzer/pylines.h"

#define STACK_DEPTH_MAX 100000 /* a damaged trace may link its frames in a circle */

static struct stack_frame *stack_push(struct stack *stack)
{
	if (stack->nr_frames == stack->room) {
		uint32_t room = stack->room ? 2 * stack->room : 64;
		struct stack_frame *frame = realloc(stack->frame, room * sizeof(*frame));

		if (!frame)
			return NULL;
		stack->frame = frame;
		stack->room = room;
	}
	stack->frame[stack->nr_frames] = (struct stack_frame){ 0 };
	return &stack->frame[stack->nr_frames++];
}

/* Python code of PyTorch itself, of the import system, and compiled text without a file of its own. */
static bool is_framework_code(const char *file)
{
	return strstr(file, "/site-packages/torch/") || strstr(file, "/dist-packages/torch/") ||
	       !strncmp(file, "<frozen ", 8);
}

/* The simulated device's own code, and the part of PyTorch through which that is entered. */
static bool is_simulation_code(const char *file)
{
	static const char dispatch[] = "/torch/utils/_python_dispatch.py";
	size_t len = strlen(file);

	return !strcmp(file, "<simgpu values>") ||
	       (len >= sizeof(dispatch) - 1 && !strcmp(file + len - (sizeof(dispatch) - 1), dispatch));
}

static void fill_python(struct stack_frame *out, const struct stack_source *source,
			const struct tfmt_frame *frame)
{
	struct tfmt_code code;

	out->python = true;
	if (!tfmt_reader_code(source->reader, (uint32_t)frame->a, &code))
		return;
	out->file = code.file;
	out->function = code.name;
	out->line = pylines_line(&code, frame->b);
	out->simulation = is_simulation_code(code.file);
	out->framework = out->simulation || is_framework_code(code.file);
}

static void fill_native(struct stack_frame *out, const struct stack_source *source, uint64_t address,
			bool innermost)
{
	uint64_t inside = address - !innermost; /* a return address may be the first byte behind the call */
	const struct tfmt_module *module = mapping_find(source->mapping, inside);
	struct symbol symbol = symbols_find(source->symbols, module, inside);

	out->function = symbol.function;
	out->file = symbol.file;
	out->line = symbol.line;
	out->offset = address;
	if (!module)
		return;
	out->module = module->path;
	out->offset = address - module->start + module->offset;
	out->framework = owner_is_cuda_layer(module->path) || owner_is_libc(module->path) ||
			 strstr(module->path, "/site-packages/torch/") ||
			 strstr(module->path, "/dist-packages/torch/") ||
			 (symbol.function && !strcmp(symbol.function, "_start"));
}

static int expand_one(struct stack *stack, const struct stack_source *source, uint32_t leaf)
{
	struct tfmt_frame frame;
	uint32_t id = leaf;
	bool innermost = true;

	for (int depth = 0; depth < STACK_DEPTH_MAX; depth++) {
		struct stack_frame *out;

		if (id < TFMT_STACK_FIRST || !tfmt_reader_frame(source->reader, id, &frame))
			break;
		out = stack_push(stack);
		if (!out)
			return TFMT_E_NOMEM;
		if (frame.kind == TFMT_FRAME_PYTHON)
			fill_python(out, source, &frame);
		else if (frame.kind == TFMT_FRAME_NATIVE)
			fill_native(out, source, frame.a, innermost);
		else
			out->cut = frame.a ? frame.a : 1;
		innermost = false;
		id = frame.parent;
	}
	return 0;
}

int stack_expand(struct stack *stack, const struct stack_source *source, uint32_t python_stack,
		 uint32_t native_stack)
{
	int ret;

	stack->nr_frames = 0;
	ret = expand_one(stack, source, python_stack);
	return ret ? ret : expand_one(stack, source, native_stack);
}

void stack_release(struct stack *stack)
{
	free(stack->frame);
	*stack = (struct stack){ 0 };
}

static int innermost_frame(const struct stack *stack, bool python, bool own_only)
{
	for (uint32_t i = 0; i < stack->nr_frames; i++) {
		const struct stack_frame *f = &stack->frame[i];

		if (f->cut || f->simulation || f->python != python || (own_only && f->framework))
			continue;
		return (int)i;
	}
	return -1;
}

int stack_site(const struct stack *stack)
{
	int site = innermost_frame(stack, true, true);

	if (site < 0)
		site = innermost_frame(stack, true, false);
	if (site < 0)
		site = innermost_frame(stack, false, true);
	if (site < 0)
		site = innermost_frame(stack, false, false);
	return site;
}

const char *stack_frame_text(char *buf, size_t size, const struct stack_frame *f)
{
	const char *function = f->function ? f->function : "?";

	if (f->cut)
		snprintf(buf, size, "(%" PRIu64 " older frames not recorded)", f->cut);
	else if (f->file && f->line)
		snprintf(buf, size, "%s:%" PRIu32 " in %s", f->file, f->line, function);
	else if (f->python)
		snprintf(buf, size, "%s in %s", f->file ? f->file : "?", function);
	else if (f->module && f->function)
		snprintf(buf, size, "%s in %s", function, mapping_base_name(f->module));
	else if (f->module)
		snprintf(buf, size, "%s+0x%" PRIx64, mapping_base_name(f->module), f->offset);
	else
		snprintf(buf, size, "0x%" PRIx64, f->offset);
	return buf;
}
