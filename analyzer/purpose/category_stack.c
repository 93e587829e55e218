/* SPDX-License-Identifier: MIT */
/* Frames by the rules of categories, and the few questions that rules cannot put. */
#include "analyzer/purpose/category_stack.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/purpose/purpose_thresholds.h"
#include "analyzer/recording/idtable.h"
#include "analyzer/recording/textset.h"

#define DEPTH_MAX 100000 /* a damaged trace may link its frames in a circle */

/* "GPT.forward" is function "forward" of class "GPT"; without a class, *class_len is 0. */
static const char *split_name(const char *name, size_t *class_len)
{
	const char *dot = strrchr(name, '.');

	*class_len = dot ? (size_t)(dot - name) : 0;
	return dot ? dot + 1 : name;
}

static bool code_of(const struct category_stacks *c, const struct tfmt_frame *frame, struct tfmt_code *code)
{
	return (frame->kind == TFMT_FRAME_PYTHON || frame->kind == TFMT_FRAME_PYTHON_ENTRY) &&
	       tfmt_reader_code(c->reader, (uint32_t)frame->a, code);
}

/* One more class of a set, which is made when it is first needed. */
static void add_class(struct textset **set, const char *name, size_t len)
{
	if (!*set)
		*set = heap_alloc(1, sizeof(**set));
	textset_add(*set, 0, name, len);
}

static void release_classes(struct textset *set)
{
	if (set)
		textset_release(set);
	free(set);
}

void category_stacks_add(struct category_stacks *c, uint32_t stack, bool runs_model)
{
	uint8_t look = runs_model ? 2 : 1;
	struct tfmt_frame frame;
	struct tfmt_code code;
	const char *function;
	size_t len;

	for (uint32_t id = stack; id >= TFMT_STACK_FIRST; id = frame.parent) {
		c->seen = idtable_grown(c->seen, &c->nr_seen, id, sizeof(*c->seen), c->reader);
		if (id >= c->nr_seen || c->seen[id] >= look || !tfmt_reader_frame(c->reader, id, &frame))
			return;
		c->seen[id] = look;
		if (!code_of(c, &frame, &code))
			continue;
		function = split_name(code.name, &len);
		if (len && !strcmp(function, "forward"))
			add_class(&c->modules, code.name, len);
		if (len && !strcmp(function, "step"))
			add_class(runs_model ? &c->trainers : &c->steppers, code.name, len);
	}
}

static bool has_class(const struct textset *classes, const char *name, size_t len)
{
	for (size_t i = 0; classes && i < classes->nr_members; i++) {
		const struct textset_member *m = classes->member[i];

		if (m->len == len && !memcmp(m->text, name, len))
			return true;
	}
	return false;
}

static bool is_recomputation(const struct tfmt_code *code, const char *function)
{
	return strstr(code->file, "/torch/utils/checkpoint.py") &&
	       (!strcmp(function, "recompute_fn") || !strcmp(function, "unpack_hook") || !strcmp(function, "backward"));
}

/* Dictionaries within each other that copy.deepcopy() goes through, from the innermost one outwards. */
static void count_dictionaries(struct category_stack *s, int *nr, const struct tfmt_code *code, const char *function)
{
	static const char file[] = "/copy.py";
	size_t len = strlen(code->file);

	if (*nr < 0 || len < sizeof(file) - 1 || strcmp(code->file + len - (sizeof(file) - 1), file))
		return;
	*nr = strcmp(function, "_reconstruct") ? *nr + !strcmp(function, "_deepcopy_dict") : -1;
	s->copies_state |= *nr >= STATE_DEPTH_MIN;
}

/* What the rules say of a frame's code. Codes are few, and patterns are costly. */
static struct category_code rules_of(struct category_stacks *c, const struct tfmt_frame *frame,
				     const struct tfmt_code *code, const char *function)
{
	uint32_t id = (uint32_t)frame->a;
	struct category_code of;

	c->of_code = idtable_grown(c->of_code, &c->nr_codes, id, sizeof(*c->of_code), c->reader);
	if (id < c->nr_codes && c->of_code[id].known)
		return c->of_code[id];
	of.known = true;
	of.kept = (uint8_t)category_rules_match(code->file, function, true);
	of.freed = (uint8_t)category_rules_match(code->file, function, false);
	if (id < c->nr_codes)
		c->of_code[id] = of;
	return of;
}

/* What autograd calls for a node that is written in Python. */
static bool is_function_node(const struct tfmt_code *code, const char *function)
{
	return !strcmp(function, "apply") && strstr(code->file, "/torch/autograd/function.py");
}

static struct category_stack read_stack(struct category_stacks *c, uint32_t stack)
{
	struct category_stack s = { .known = true, .kept = CATEGORY_PASS_OVER, .freed = CATEGORY_PASS_OVER };
	struct tfmt_frame frame;
	struct tfmt_code code;
	uint32_t id = stack;
	bool is_called = false;  /* the latest frame is Python's, and runs no node of its own */
	int nr_dictionaries = 0;

	for (int depth = 0; depth < DEPTH_MAX && id >= TFMT_STACK_FIRST; depth++, id = frame.parent) {
		struct category_code rules;
		const char *function;
		size_t len;

		if (!tfmt_reader_frame(c->reader, id, &frame))
			break;
		s.in_hook |= frame.kind == TFMT_FRAME_NODE && is_called;
		is_called = false;
		if (frame.kind == TFMT_FRAME_NODE && frame.b)
			break; /* what follows made the node, and does not run */
		if (!code_of(c, &frame, &code))
			continue;
		function = split_name(code.name, &len);
		is_called = !is_function_node(&code, function);
		rules = rules_of(c, &frame, &code, function);
		s.kept = s.kept >= CATEGORY_PASS_OVER ? rules.kept : s.kept;
		s.freed = s.freed >= CATEGORY_PASS_OVER ? rules.freed : s.freed;
		count_dictionaries(&s, &nr_dictionaries, &code, function);
		s.recomputes |= is_recomputation(&code, function);
		s.moves_module |= !strcmp(function, "_apply") && strstr(code.file, "/torch/nn/modules/module.py");
		s.makes_module |= len && !strcmp(function, "__init__") && has_class(c->modules, code.name, len);
		s.is_optimizer |= len && (!strcmp(function, "__init__") || !strcmp(function, "step")) &&
				  has_class(c->steppers, code.name, len) && !has_class(c->trainers, code.name, len);
	}
	return s;
}

struct category_stack category_stack_of(struct category_stacks *c, uint32_t stack)
{
	static const struct category_stack nothing = { .kept = CATEGORY_NO_RULE, .freed = CATEGORY_NO_RULE };

	if (stack < TFMT_STACK_FIRST)
		return nothing;
	c->of = idtable_grown(c->of, &c->nr_stacks, stack, sizeof(*c->of), c->reader);
	if (stack >= c->nr_stacks)
		return nothing;
	if (!c->of[stack].known)
		c->of[stack] = read_stack(c, stack);
	return c->of[stack];
}

void category_stack_count(struct category_stacks *c, uint32_t stack)
{
	if (category_stack_of(c, stack).known)
		c->of[stack].nr_copies++;
}

void category_stack_count_shape(struct category_stacks *c, uint32_t stack)
{
	if (category_stack_of(c, stack).known)
		c->of[stack].nr_shapes++;
}

void category_stacks_release(struct category_stacks *c)
{
	release_classes(c->modules);
	release_classes(c->steppers);
	release_classes(c->trainers);
	free(c->seen);
	free(c->of);
	free(c->of_code);
	*c = (struct category_stacks){ .reader = c->reader };
}
