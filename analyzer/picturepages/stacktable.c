/* SPDX-License-Identifier: MIT */
/* Interning texts, frames, calls and stacks. */
#include "analyzer/picturepages/stacktable.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

enum { KEY_FRAME, KEY_CALL, KEY_STACK };

uint32_t stacktable_text(struct stacktable *t, const char *text)
{
	return text && *text ? textset_add(&t->texts, 0, text, strlen(text))->number : 0;
}

/* The number of a key; true: it is new. */
static bool intern(struct stacktable *t, unsigned kind, const void *key, size_t len, uint32_t *number)
{
	uint32_t before = t->keys.nr_of_kind[kind];

	*number = textset_add(&t->keys, kind, key, len)->number;
	return *number > before;
}

static uint32_t add_frame(struct stacktable *t, const struct stack_frame *f)
{
	struct stacktable_frame frame = {
		.file = stacktable_text(t, f->file ? f->file : f->module),
		.line = f->line,
		.function = stacktable_text(t, f->function),
		.flags = (f->python ? STACKTABLE_PYTHON : 0u) | (f->framework ? STACKTABLE_FRAMEWORK : 0u) |
			 (f->node ? STACKTABLE_NODE : 0u) | (f->from_forward ? STACKTABLE_FROM_FORWARD : 0u) |
			 (f->cut ? STACKTABLE_CUT : 0u),
	};
	uint32_t number;

	if (intern(t, KEY_FRAME, &frame, sizeof(frame), &number)) {
		t->frame = heap_grow(t->frame, &t->frames_room, t->nr_frames + 1, sizeof(*t->frame));
		t->frame[t->nr_frames++] = frame;
	}
	return number;
}

static uint32_t add_call(struct stacktable *t, uint32_t frame, uint32_t caller)
{
	struct stacktable_call call = { frame, caller };
	uint32_t number;

	if (intern(t, KEY_CALL, &call, sizeof(call), &number)) {
		t->call = heap_grow(t->call, &t->calls_room, t->nr_calls + 1, sizeof(*t->call));
		t->call[t->nr_calls++] = call;
	}
	return number;
}

static struct stacktable_stack expand(struct stacktable *t)
{
	const struct stack *s = &t->expanded;
	int site = stack_site(s), program = stack_program(s, site < 0 ? 0 : site);
	struct stacktable_stack stack = { 0 };

	for (uint32_t i = s->nr_frames; i-- > 0;) {
		uint32_t frame = add_frame(t, &s->frame[i]);

		stack.call = add_call(t, frame, stack.call);
		if ((int)i == site)
			stack.site = frame;
		if ((int)i == program)
			stack.program = frame;
	}
	return stack;
}

uint32_t stacktable_add(struct stacktable *t, const struct replay *m, struct replay_process *process, uint32_t python_stack,
			uint32_t native_stack)
{
	struct {
		const struct replay_process *process;
		uint32_t python_stack, native_stack;
	} key = { process, python_stack, native_stack };
	struct stack_source source = replay_stack_source(m, process);
	uint32_t number;

	if (!intern(t, KEY_STACK, &key, sizeof(key), &number))
		return number;
	stack_expand(&t->expanded, &source, python_stack, native_stack);
	t->stack = heap_grow(t->stack, &t->stacks_room, t->nr_stacks + 1, sizeof(*t->stack));
	t->stack[t->nr_stacks] = expand(t);
	t->nr_stacks++;
	return number;
}

void stacktable_release(struct stacktable *t)
{
	textset_release(&t->texts);
	textset_release(&t->keys);
	free(t->frame);
	free(t->call);
	free(t->stack);
	stack_release(&t->expanded);
	*t = (struct stacktable){ 0 };
}
