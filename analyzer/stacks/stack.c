/* SPDX-License-Identifier: MIT */
/* Stack ids to frames: Python through line tables, native through symbols. */
#include "analyzer/stacks/stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/basename.h"
#include "analyzer/stacks/owner.h"
#include "analyzer/stacks/pylines.h"

#define STACK_DEPTH_MAX 100000 /* a damaged trace may link its frames in a circle */

static struct stack_frame *stack_push(struct stack *stack)
{
	stack->frame = heap_grow(stack->frame, &stack->room, (size_t)stack->nr_frames + 1, sizeof(*stack->frame));
	stack->frame[stack->nr_frames] = (struct stack_frame){ 0 };
	return &stack->frame[stack->nr_frames++];
}

/* Python's own library: copy.deepcopy(), threads, contexts; and compiled text without a file of its own. */
static bool is_library_code(const char *file)
{
	if (!strncmp(file, "<frozen ", 8))
		return true;
	return strstr(file, "/lib/python3.") && !strstr(file, "/site-packages/") && !strstr(file, "/dist-packages/");
}

/*
 * What torch.compile has written: ".../ab/cab7r...py", a hash of 51 digits to base 32 after the "c", of which two name
 * the folder. Its cache may be anywhere (TORCHINDUCTOR_CACHE_DIR).
 */
static bool is_generated_code(const char *file)
{
	const char *name = strrchr(file, '/');
	size_t len = name ? strspn(name + 1, "abcdefghijklmnopqrstuvwxyz234567") : 0;

	return len == 52 && name[1] == 'c' && !strcmp(name + 53, ".py") && name - file >= 3 && name[-3] == '/' &&
	       !memcmp(name - 2, name + 2, 2);
}

/* The simulated device's own code, also what runs single ranks, and the part of PyTorch through which it is entered. */
static bool is_simulation_code(const char *file)
{
	static const char dispatch[] = "/torch/utils/_python_dispatch.py";
	size_t len = strlen(file);

	return !strcmp(file, "<simgpu values>") || strstr(file, "/simgpu_ranks/") ||
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
	out->torch = mapping_is_torch(source->mapping, code.file);
	out->framework = out->simulation || out->torch || is_library_code(code.file) || is_generated_code(code.file);
}

static void fill_native(struct stack_frame *out, const struct stack_source *source, uint64_t address,
			bool innermost)
{
	uint64_t inside = address - !innermost; /* a return address may be the first byte after the call */
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
	out->torch = mapping_is_torch(source->mapping, out->module);
	out->framework = out->torch || owner_is_cuda_layer(module->path) || owner_is_libc(module->path) ||
			 (symbol.function && !strcmp(symbol.function, "_start"));
}

/* By its name, as symbols have it: no file that was mapped is known. */
static bool is_torch_function(const char *name)
{
	static const char *const spaces[] = { "at::", "c10::", "c10d::", "torch::", "caffe2::", "THP" };

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
		if (!strncmp(name, spaces[i], strlen(spaces[i])))
			return true;
	return strstr(name, " torch::") || strstr(name, " at::") || strstr(name, " c10::");
}

/* The interpreter, what binds C++ to it, and what starts a program or a thread. */
static bool is_runtime_function(const char *name)
{
	static const char *const begin[] = { "_Py",  "Py",	  "pybind11::",	  "std::", "__libc_start",
					     "_start", "clone3", "__clone", "start_thread", "execute_native_thread_routine" };

	for (size_t i = 0; i < sizeof(begin) / sizeof(*begin); i++)
		if (!strncmp(name, begin[i], strlen(begin[i])))
			return true;
	return false;
}

static void fill_named(struct stack_frame *out, const struct stack_source *source, const struct tfmt_frame *frame)
{
	struct tfmt_code code;

	if (!tfmt_reader_code(source->reader, (uint32_t)frame->a, &code))
		return;
	out->function = code.name;
	out->file = strcmp(code.file, "??") != 0 && *code.file ? code.file : NULL;
	out->line = code.first_line;
	out->torch = is_torch_function(code.name);
	out->framework = out->torch || is_runtime_function(code.name);
}

static void fill_node(struct stack_frame *out, const struct stack_source *source, const struct tfmt_frame *frame)
{
	out->node = true;
	out->function = tfmt_reader_string(source->reader, (uint32_t)frame->a);
}

static void expand_one(struct stack *stack, const struct stack_source *source, uint32_t leaf)
{
	struct tfmt_frame frame;
	uint32_t id = leaf;
	bool innermost = true, from_forward = false;

	for (int depth = 0; depth < STACK_DEPTH_MAX; depth++) {
		struct stack_frame *out;

		if (id < TFMT_STACK_FIRST || !tfmt_reader_frame(source->reader, id, &frame))
			break;
		out = stack_push(stack);
		out->from_forward = from_forward;
		out->entry = frame.kind == TFMT_FRAME_PYTHON_ENTRY;
		out->runs_python = (frame.kind == TFMT_FRAME_NATIVE || frame.kind == TFMT_FRAME_NAMED) && frame.b == 1;
		if (frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY)
			fill_python(out, source, &frame);
		else if (frame.kind == TFMT_FRAME_NODE)
			fill_node(out, source, &frame);
		else if (frame.kind == TFMT_FRAME_NAMED)
			fill_named(out, source, &frame);
		else if (frame.kind == TFMT_FRAME_NATIVE)
			fill_native(out, source, frame.a, innermost);
		else
			out->cut = frame.a ? frame.a : STACK_CUT_UNKNOWN;
		from_forward |= frame.kind == TFMT_FRAME_NODE && frame.b;
		innermost = false;
		id = frame.parent;
	}
}

/* Frames from `first` on, up to and including one that native code called; 0 if there is none. */
static uint32_t group_frames(const struct stack *stack, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		if (stack->frame[i].entry)
			return i + 1 - first;
	return 0;
}

/* How many Python frames, innermost first, are called by frames of the native stack, as far as both were recorded. */
static uint32_t nr_called(const struct stack *stack, uint32_t nr_python)
{
	uint32_t i = 0;

	while (i < nr_python && !stack->frame[i].cut && !stack->frame[i].from_forward &&
	       !(stack->frame[i].node && i + 1 < nr_python && stack->frame[i + 1].from_forward))
		i++;
	return i;
}

/*
 * The first nr_python frames are Python's, the others native. Each native frame that runs Python takes its group from
 * the innermost that are left. Where groups and such frames do not match, the stacks tell different stories and stay apart.
 */
static void weave(struct stack *stack, uint32_t nr_python)
{
	uint32_t called = nr_called(stack, nr_python), taken = 0, n = 0;
	bool cut = stack->frame[stack->nr_frames - 1].cut, has_groups = true;

	stack->spare = heap_grow(stack->spare, &stack->spare_room, stack->nr_frames, sizeof(*stack->spare));
	for (uint32_t i = nr_python; i < stack->nr_frames; i++) {
		bool wants = stack->frame[i].runs_python;
		uint32_t group = wants && has_groups ? group_frames(stack, taken, called) : 0;

		has_groups &= group || !wants; /* where none is, none comes: once through the frames is enough */
		if (wants && !group && called == nr_python)
			return;
		for (; group; group--)
			stack->spare[n++] = stack->frame[taken++];
		stack->spare[n++] = stack->frame[i];
	}
	if (taken < called && !cut)
		return;
	while (taken < nr_python)
		stack->spare[n++] = stack->frame[taken++];
	memcpy(stack->frame, stack->spare, n * sizeof(*stack->frame));
}

void stack_expand(struct stack *stack, const struct stack_source *source, uint32_t python_stack,
		  uint32_t native_stack)
{
	uint32_t nr_python;

	stack->nr_frames = 0;
	expand_one(stack, source, python_stack);
	nr_python = stack->nr_frames;
	expand_one(stack, source, native_stack);
	if (nr_python && stack->nr_frames > nr_python)
		weave(stack, nr_python);
}

void stack_release(struct stack *stack)
{
	free(stack->spare);
	free(stack->frame);
	*stack = (struct stack){ 0 };
}

static int innermost_frame(const struct stack *stack, bool python, bool own_only)
{
	for (uint32_t i = 0; i < stack->nr_frames; i++) {
		const struct stack_frame *f = &stack->frame[i];

		if (f->cut || f->node || f->simulation || f->python != python || (own_only && f->framework))
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

/* By where package managers and Python put what they install. */
static bool is_installed_code(const char *file)
{
	return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") || strstr(file, "/lib/python") ||
	       *file == '<';
}

int stack_program(const struct stack *stack, int from)
{
	for (uint32_t i = (uint32_t)from; i < stack->nr_frames; i++) {
		const struct stack_frame *f = &stack->frame[i];

		if (f->python && f->file && !f->framework && !is_installed_code(f->file))
			return (int)i;
	}
	return -1;
}

const struct stack_frame *stack_node(const struct stack *stack)
{
	for (uint32_t i = 0; i < stack->nr_frames; i++) {
		if (stack->frame[i].node)
			return &stack->frame[i];
	}
	return NULL;
}

const char *stack_frame_text(char *buf, size_t size, const struct stack_frame *f)
{
	const char *function = f->function ? f->function : "?";

	if (f->cut == STACK_CUT_UNKNOWN)
		snprintf(buf, size, "(older frames not recorded)");
	else if (f->cut)
		snprintf(buf, size, "(%" PRIu64 " older frames not recorded)", f->cut);
	else if (f->node)
		snprintf(buf, size, "in backward of %s", function);
	else if (f->file && f->line)
		snprintf(buf, size, "%s:%" PRIu32 " in %s", f->file, f->line, function);
	else if (f->python)
		snprintf(buf, size, "%s in %s", f->file ? f->file : "?", function);
	else if (f->function && !f->module)
		snprintf(buf, size, "%s", function);
	else if (f->module && f->function)
		snprintf(buf, size, "%s in %s", function, basename_of(f->module));
	else if (f->module)
		snprintf(buf, size, "%s+0x%" PRIx64, basename_of(f->module), f->offset);
	else
		snprintf(buf, size, "0x%" PRIx64, f->offset);
	return buf;
}
