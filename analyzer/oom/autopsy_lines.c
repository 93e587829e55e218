/* SPDX-License-Identifier: MIT */
/* Which line a finding is said to be at, and who called it. */
#include "analyzer/oom/autopsy_facts.h"

#include <string.h>

#include "analyzer/stacks/sourceline.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/*
 * The frame that called the outermost function of a part of PyTorch, in a backward pass of the forward's that it goes back through, if
 * asked; -1: there is none of that part.
 */
static int caller_of(const struct stack *stack, const char *part, bool of_forward)
{
	int last = -1;

	for (uint32_t i = 0; i < stack->nr_frames && (of_forward || !stack->frame[i].from_forward); i++) {
		const char *file = stack->frame[i].python ? stack->frame[i].file : NULL;

		if (file && strstr(file, part))
			last = (int)i;
	}
	return last < 0 ? -1 : last + 1;
}

#define MODULES "/torch/nn/modules/module.py"
#define TRANSFORMS "/torch/_functorch/" /* vmap(), grad() and their like */
#define FUNCTIONAL "torch/nn/functional.py"
#define EMBEDDING "torch/nn/modules/sparse.py"
#define ASYNCIO "/asyncio/events.py"

static bool find_call_line(const struct autopsy *a, uint32_t python_stack, const char *part, bool of_forward,
			   struct stack_frame *out)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	int from, line;

	stack_expand(&stack, &source, python_stack, 0);
	from = caller_of(&stack, part, of_forward);
	line = from < 0 ? -1 : stack_program(&stack, from);
	if (line >= 0)
		*out = stack.frame[line];
	stack_release(&stack);
	return line >= 0;
}

bool autopsy_call_line(const struct autopsy *a, uint32_t python_stack, struct stack_frame *out)
{
	return find_call_line(a, python_stack, MODULES, false, out);
}

bool autopsy_call_line_of_pass(const struct autopsy *a, uint32_t python_stack, struct stack_frame *out)
{
	return find_call_line(a, python_stack, MODULES, true, out);
}

/* The frame of a function of this file or folder, by its beginning; -1: it is not on the stack. */
static int frame_of(const struct stack *stack, const char *part, const char *name)
{
	for (uint32_t i = 0; i < stack->nr_frames; i++) {
		const struct stack_frame *f = &stack->frame[i];

		if (f->python && f->file && f->function && strstr(f->file, part) && !strncmp(f->function, name, strlen(name)))
			return (int)i;
	}
	return -1;
}

static int frame_of_transform(const struct stack *stack, const char *name)
{
	return frame_of(stack, TRANSFORMS, name);
}

static bool has_frame_of(const struct autopsy *a, uint32_t python_stack, const char *part, const char *name)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool has;

	stack_expand(&stack, &source, python_stack, 0);
	has = frame_of(&stack, part, name) >= 0;
	stack_release(&stack);
	return has;
}

bool autopsy_is_of_attention_weights(const struct autopsy *a, uint32_t python_stack)
{
	return has_frame_of(a, python_stack, FUNCTIONAL, "multi_head_attention_forward");
}

bool autopsy_is_looked_up(const struct autopsy *a, uint32_t python_stack)
{
	return has_frame_of(a, python_stack, EMBEDDING, "");
}

bool autopsy_is_of_coroutine(const struct autopsy *a, uint32_t python_stack)
{
	return has_frame_of(a, python_stack, ASYNCIO, "Handle._run") || /* before Python 3.11 without its class: */
	       has_frame_of(a, python_stack, ASYNCIO, "_run");
}

bool autopsy_is_of_sample_gradients(const struct autopsy *a, uint32_t python_stack)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool is;

	stack_expand(&stack, &source, python_stack, 0);
	is = frame_of_transform(&stack, "vmap") > frame_of_transform(&stack, "grad") && frame_of_transform(&stack, "grad") >= 0;
	stack_release(&stack);
	return is;
}

bool autopsy_has_chunks(const struct autopsy *a, uint32_t python_stack, const char **function, struct stack_frame *line)
{
	static const char *const names[] = { "jacrev", "vmap" };
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	int at = -1;

	stack_expand(&stack, &source, python_stack, 0);
	for (size_t k = 0; k < sizeof(names) / sizeof(*names) && at < 0; k++) {
		at = frame_of_transform(&stack, names[k]);
		*function = names[k];
	}
	at = at < 0 ? -1 : stack_program(&stack, at);
	if (at >= 0)
		*line = stack.frame[at];
	stack_release(&stack);
	return at >= 0;
}

bool autopsy_call_of(const struct autopsy *a, uint32_t python_stack, const char *file, const char *function, struct stack_frame *line)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	int at;

	stack_expand(&stack, &source, python_stack, 0);
	at = frame_of(&stack, file, function);
	at = at >= 0 && stack.frame[at].torch ? stack_program(&stack, at) : -1;
	if (at >= 0)
		*line = stack.frame[at];
	stack_release(&stack);
	return at >= 0;
}

void autopsy_at_transform(const struct autopsy *a, struct autopsy_finding *f, size_t block)
{
	struct stack_frame line;
	bool is_request = find_call_line(a, a->failure->python_stack, TRANSFORMS, true, &line);

	if (!is_request && block != SIZE_MAX && find_call_line(a, autopsy_group(a, block)->python_stack, TRANSFORMS, true, &line)) {
		autopsy_at_block(a, f, block);
	} else {
		autopsy_at_request(a, f);
		if (!is_request)
			return;
	}
	f->caller = line;
	f->has_caller = true;
}

static void find_caller(const struct autopsy *a, struct autopsy_finding *f, uint32_t python, uint32_t native,
			bool of_model)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	int site, from, caller = -1;

	stack_expand(&stack, &source, python, native);
	site = stack_site(&stack);
	from = of_model && site >= 0 ? caller_of(&stack, MODULES, false) : -1;
	if (site >= 0 && stack.frame[site].python)
		caller = stack_program(&stack, from > site ? from : site);
	f->has_caller = caller > site;
	if (f->has_caller)
		f->caller = stack.frame[caller];
	stack_release(&stack);
}

/* The Python frames that are not PyTorch's own, outermost first; the number of them. */
static uint32_t keep_program(struct stack *stack)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < stack->nr_frames; i++)
		if (stack->frame[i].python && !stack->frame[i].framework && !stack->frame[i].from_forward)
			stack->frame[nr++] = stack->frame[i];
	for (uint32_t i = 0; i < nr / 2; i++) {
		struct stack_frame frame = stack->frame[i];

		stack->frame[i] = stack->frame[nr - 1 - i];
		stack->frame[nr - 1 - i] = frame;
	}
	return nr;
}

bool autopsy_common_line(const struct autopsy *a, const uint32_t *python_stacks, size_t nr, struct stack_frame *line)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack common = { 0 }, stack = { 0 };
	uint32_t nr_common = 0, nr_frames, same;

	for (size_t i = 0; i < nr; i++) {
		stack_expand(i ? &stack : &common, &source, python_stacks[i], 0);
		nr_frames = keep_program(i ? &stack : &common);
		for (same = 0; i && same < nr_frames && same < nr_common; same++)
			if (!sourceline_is_same_call(&stack.frame[same], &common.frame[same]))
				break;
		nr_common = i ? same : nr_frames;
	}
	if (nr_common)
		*line = common.frame[nr_common - 1];
	stack_release(&common);
	stack_release(&stack);
	return nr_common;
}

/* The program's frames of a stack down to that of a line, which is then the last: how many; 0: it does not lead there. */
static uint32_t frames_down_to(struct stack *stack, const struct autopsy *a, uint32_t python_stack, const struct stack_frame *line)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	uint32_t nr;

	stack_expand(stack, &source, python_stack, 0);
	nr = keep_program(stack);
	while (nr && !sourceline_is_same_call(&stack->frame[nr - 1], line))
		nr--;
	return nr;
}

bool autopsy_leads_through(const struct autopsy *a, uint32_t python_stack, const struct stack_frame *line)
{
	struct stack stack = { 0 };
	bool leads = frames_down_to(&stack, a, python_stack, line);

	stack_release(&stack);
	return leads;
}

bool autopsy_outer_line(const struct autopsy *a, uint32_t python_stack, const struct stack_frame *from, struct stack_frame *line)
{
	struct stack stack = { 0 };
	uint32_t nr = frames_down_to(&stack, a, python_stack, from);

	if (nr > 1)
		*line = stack.frame[nr - 2];
	stack_release(&stack);
	return nr > 1;
}

bool autopsy_line_of(const struct autopsy *a, uint32_t python_stack, const struct objectname *variable, struct stack_frame *line)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool found = false;

	stack_expand(&stack, &source, python_stack, 0);
	for (uint32_t i = keep_program(&stack); i-- && !found;) {
		found = same_text(stack.frame[i].file, variable->file) && same_text(stack.frame[i].function, variable->function);
		*line = stack.frame[i];
	}
	stack_release(&stack);
	return found;
}

bool autopsy_same_call_of(const struct autopsy *a, const uint32_t python_stacks[2], const struct objectname *variable, struct stack_frame *line)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack[2] = { 0 };
	uint32_t nr[2];
	bool found = false;

	for (int k = 0; k < 2; k++) {
		stack_expand(&stack[k], &source, python_stacks[k], 0);
		nr[k] = keep_program(&stack[k]);
	}
	for (uint32_t i = 0; i + 1 < nr[0] && i + 1 < nr[1] && !found; i++) {
		const struct stack_frame *frame = &stack[0].frame[i];

		if (!sourceline_is_same_call(frame, &stack[1].frame[i]))
			break;
		found = same_text(frame->file, variable->file) && same_text(frame->function, variable->function);
		*line = *frame;
	}
	stack_release(&stack[0]);
	stack_release(&stack[1]);
	return found;
}

void autopsy_ended_call(const struct autopsy *a, const struct failure *ended, struct ended_call *call)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack later = { 0 };
	uint32_t nr, nr_later, at = 0;

	stack_expand(&call->stack, &source, ended->python_stack, 0);
	stack_expand(&later, &source, a->failure->python_stack, 0);
	nr = keep_program(&call->stack);
	nr_later = keep_program(&later);
	while (at < nr && at < nr_later && sourceline_is_same_call(&call->stack.frame[at], &later.frame[at]))
		at++;
	call->is_parted = at < nr && at < nr_later &&
			  sourceline_is_same_function(&call->stack.frame[at], &later.frame[at]);
	call->stack.nr_frames = call->is_parted ? at + 1 : nr;
	stack_release(&later);
}

bool autopsy_is_on_call(const struct autopsy *a, uint32_t python_stack, const struct ended_call *call)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	uint32_t nr, i = 0;

	stack_expand(&stack, &source, python_stack, 0);
	nr = keep_program(&stack);
	while (i < nr && i < call->stack.nr_frames && sourceline_is_same_call(&stack.frame[i], &call->stack.frame[i]))
		i++;
	stack_release(&stack);
	return i && i == (call->is_parted ? call->stack.nr_frames : nr);
}

bool autopsy_begins_as_call(const struct autopsy *a, uint32_t python_stack, const struct ended_call *call)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	bool begins;

	stack_expand(&stack, &source, python_stack, 0);
	begins = !keep_program(&stack) || !call->stack.nr_frames || sourceline_is_same_function(&stack.frame[0], &call->stack.frame[0]);
	stack_release(&stack);
	return begins;
}

void autopsy_at_block(const struct autopsy *a, struct autopsy_finding *f, size_t block)
{
	f->site = a->place[a->block[block].place].frame;
	f->has_site = f->site.file || f->site.function;
	if (f->has_site && !a->failure->is_driver)
		find_caller(a, f, autopsy_group(a, block)->python_stack, 0, false);
}

void autopsy_at_place(const struct autopsy *a, struct autopsy_finding *f, size_t place)
{
	autopsy_at_block(a, f, a->place[place].largest);
}

void autopsy_at_call(const struct autopsy *a, struct autopsy_finding *f, size_t block)
{
	autopsy_at_place(a, f, a->block[block].place);
	if (f->has_site)
		find_caller(a, f, autopsy_group(a, block)->python_stack, 0, true);
}

/* Does the function only put an object together, for the one that has called for it? */
static bool makes_parts(const struct stack_frame *frame)
{
	static const char *const names[] = { "__init__", "<genexpr>", "<listcomp>" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (frame->function && strstr(frame->function, names[i]))
			return true;
	return false;
}

void autopsy_at_making(const struct autopsy *a, struct autopsy_finding *f, size_t block)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	int site, from, caller;

	autopsy_at_place(a, f, a->block[block].place);
	stack_expand(&stack, &source, autopsy_group(a, block)->python_stack, 0);
	site = from = stack_site(&stack);
	while (from >= 0 && from + 1 < (int)stack.nr_frames && (stack.frame[from].framework || makes_parts(&stack.frame[from])))
		from++;
	caller = from > site ? stack_program(&stack, from) : -1;
	if (caller >= 0) {
		f->has_caller = true;
		f->caller = stack.frame[caller];
	}
	stack_release(&stack);
}

void autopsy_at_group(const struct autopsy *a, struct autopsy_finding *f, const struct group *g)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	struct stack stack = { 0 };
	int site;

	stack_expand(&stack, &source, g->python_stack, g->native_stack);
	site = stack_site(&stack);
	f->has_site = site >= 0;
	if (f->has_site) {
		f->site = stack.frame[site];
		find_caller(a, f, g->python_stack, g->native_stack, false);
	}
	stack_release(&stack);
}

void autopsy_at_request(const struct autopsy *a, struct autopsy_finding *f)
{
	f->site = a->site;
	f->has_site = a->has_site;
	if (f->has_site)
		find_caller(a, f, a->failure->python_stack, a->failure->native_stack, false);
}
