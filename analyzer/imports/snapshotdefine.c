/* SPDX-License-Identifier: MIT */
/* Numbers of a snapshot as ids of a trace. */
#include "analyzer/imports/snapshotdefine.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* By this file an analysis knows calls of PyTorch's allocator. Nothing is mapped there: what is in it is never asked for. */
#define ALLOCATOR_MODULE "/imported/libc10_cuda.so"
#define ALLOCATOR_AT 0x1000
#define ALLOCATOR_FRAME TFMT_STACK_FIRST
#define FIRST_NODE (TFMT_STACK_FIRST + 1)

static uint32_t node_id(uint32_t number)
{
	return FIRST_NODE + number;
}

static void define_frame(struct tracemaker *t, uint32_t id, uint32_t parent, enum tfmt_frame_kind kind, uint64_t a, int b)
{
	uint8_t buf[64], *p = buf;

	p = tfmt_put_varint(p, parent);
	p = tfmt_put_varint(p, kind);
	p = tfmt_put_varint(p, a);
	p = tfmt_put_zigzag(p, b);
	tracemaker_define(t, TFMT_DEF_FRAME, id, buf, (size_t)(p - buf));
}

static void define_allocator(struct tracemaker *t)
{
	uint8_t buf[128], *p = buf;

	p = tfmt_put_varint(p, ALLOCATOR_AT);
	p = tfmt_put_varint(p, 2 * ALLOCATOR_AT);
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_string(p, ALLOCATOR_MODULE, strlen(ALLOCATOR_MODULE));
	p = tfmt_put_string(p, "", 0);
	tracemaker_define(t, TFMT_DEF_MODULE, 0, buf, (size_t)(p - buf));
	define_frame(t, ALLOCATOR_FRAME, 0, TFMT_FRAME_NATIVE, ALLOCATOR_AT, 0);
}

/* A line of a function as a code object of its own: each position of it is on its first line. */
static void define_code(const struct snapshot *s, struct tracemaker *t, uint32_t number)
{
	const uint32_t *part = s->stacks.frames.key[number].part;
	const char *name = framestacks_text(&s->stacks, part[0]), *file = framestacks_text(&s->stacks, part[1]);
	size_t name_len = strlen(name), file_len = strlen(file);
	uint8_t *buf = heap_alloc(name_len + file_len + 40, 1), *p = buf;

	p = tfmt_put_varint(p, TFMT_LINES_PEP626);
	p = tfmt_put_varint(p, part[2]);
	p = tfmt_put_string(p, name, name_len);
	p = tfmt_put_string(p, file, file_len);
	tracemaker_define(t, TFMT_DEF_CODE, number + 1, buf, (size_t)(p - buf));
	free(buf);
}

static void define_node(const struct snapshot *s, struct tracemaker *t, uint32_t number)
{
	const uint32_t *part = s->stacks.nodes.key[number].part;
	uint32_t parent = part[0] ? node_id(part[0] - 1) : 0;
	bool is_native = s->stacks.frames.key[part[1]].part[3] != FRAMESTACKS_PYTHON;

	if (is_native)
		define_frame(t, node_id(number), parent, TFMT_FRAME_NAMED, part[1] + 1, part[2] == FRAMESTACKS_RUNS);
	else
		define_frame(t, node_id(number), parent,
			     part[2] == FRAMESTACKS_ENTRY ? TFMT_FRAME_PYTHON_ENTRY : TFMT_FRAME_PYTHON, part[1] + 1, -1);
}

static void define_facts(const struct snapshot *s, struct tracemaker *t)
{
	tracemaker_info(t, "imported", s->origin ? s->origin : "PyTorch memory snapshot");
	tracemaker_info(t, "stacks", !s->stacks.pairs.nr ? "none" : s->stacks.has_native ? "full" : "python");
	if (s->settings.conf && *s->settings.conf)
		tracemaker_info(t, "allocator_conf", s->settings.conf);
	if (s->has_host)
		tracemaker_info(t, "imported_host", "pinned");
	if (!s->has_times)
		tracemaker_info(t, "note", "the snapshot has no times: each entry counts as a microsecond");
}

void snapshotdefine_all(const struct snapshot *s, struct tracemaker *t)
{
	define_facts(s, t);
	for (uint32_t i = 0; i < s->nr_devices; i++)
		tracemaker_device(t, i);
	define_allocator(t);
	for (uint32_t i = 0; i < s->stacks.texts.nr_members; i++)
		tracemaker_text(t, TFMT_DEF_STRING, i + 1, s->stacks.texts.member[i]->text);
	tracemaker_text(t, TFMT_DEF_STRING, SNAPSHOTDEFINE_LABELS(s), "user_metadata");
	for (uint32_t i = 0; i < s->stacks.frames.nr; i++)
		define_code(s, t, i);
	for (uint32_t i = 0; i < s->stacks.nodes.nr; i++)
		define_node(s, t, i);
}

void snapshotdefine_stack(const struct snapshot *s, uint32_t stack, struct tfmt_event *ev)
{
	bool is_tensor = ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE || ev->kind == TFMT_TENSOR_OOM;
	const uint32_t *part;

	if (stack == SNAPSHOTDEFINE_NO_PYTHON)
		ev->python_stack = TFMT_STACK_NO_PYTHON;
	if (!stack || stack == SNAPSHOTDEFINE_NO_PYTHON)
		return;
	part = s->stacks.pairs.key[stack - 1].part;
	if (part[2] && is_tensor)
		ev->flags |= TFMT_FLAG_BACKWARD;
	ev->python_stack = part[0] ? node_id(part[0] - 1) : TFMT_STACK_NO_PYTHON;
	ev->native_stack = part[1] ? node_id(part[1] - 1) : TFMT_STACK_NOT_CAPTURED;
}

void snapshotdefine_call(const struct snapshot *s, uint32_t stack, struct tfmt_event *ev)
{
	snapshotdefine_stack(s, stack, ev);
	ev->native_stack = ALLOCATOR_FRAME;
}
