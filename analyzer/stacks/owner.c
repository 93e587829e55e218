/* SPDX-License-Identifier: MIT */
/* Judging stacks by the rules of owners. */
#include "analyzer/stacks/owner.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/recording/basename.h"
#include "analyzer/recording/idtable.h"
#include "analyzer/stacks/owner_rules.h"
#include "analyzer/stacks/symbols.h"

/* The layer below whoever asked; libcuda.so.1 is a link to libsimgpu.so when the device is simulated. */
static const char *const cuda_layer[] = { "libcuda.so", "libcudart", "libinterpose.so", "libsimgpu.so" };

#define STACK_DEPTH_MAX 100000 /* a damaged trace may link its frames in a circle */

bool owner_is_cuda_layer(const char *path)
{
	const char *name = basename_of(path);

	for (size_t i = 0; i < sizeof(cuda_layer) / sizeof(*cuda_layer); i++)
		if (!strncmp(name, cuda_layer[i], strlen(cuda_layer[i])))
			return true;
	return false;
}

bool owner_is_libc(const char *path)
{
	const char *name = basename_of(path);

	return !strncmp(name, "libc.so", strlen("libc.so")) || !strncmp(name, "ld-linux", strlen("ld-linux"));
}

/* A native frame, for rules that ask for its function. */
struct native_frame {
	struct symbols *symbols;
	const struct tfmt_module *module;
	uint64_t address;
};

static const char *function_at(void *ctx)
{
	const struct native_frame *f = ctx;

	return f->symbols ? symbols_find(f->symbols, f->module, f->address).function : NULL;
}

/* The owner of a native frame, OWNER_PASS_OVER, or OWNER_NO_RULE where no file is known or no rule names it. */
static int owner_of_native(struct owner_cache *c, struct mapping *m, uint64_t address,
			   struct owner_answer *answer)
{
	const struct tfmt_module *module = mapping_find(m, address);
	struct native_frame frame = { c->symbols, module, address };

	if (!module)
		return OWNER_NO_RULE;
	if (owner_is_cuda_layer(module->path))
		return OWNER_PASS_OVER;
	/* A user's rule may pass the allocator's file over: it was on the way all the same. */
	answer->torch_allocator |=
	    !strncmp(basename_of(module->path), "libc10_cuda", strlen("libc10_cuda"));
	return owner_rules_match(module->path, owner_rules_need_functions() ? function_at : NULL, &frame);
}

static int owner_of_python(struct mapping *m, const struct tfmt_frame *frame)
{
	struct tfmt_code code;

	return tfmt_reader_code(m->reader, (uint32_t)frame->a, &code) ? owner_rules_match(code.file, NULL, NULL)
								     : OWNER_NO_RULE;
}

/*
 * The innermost frame that is not passed over decides: by its rule, else it is the program's. OWNER_PASS_OVER in
 * answer->owner: all were passed over; OWNER_UNKNOWN: there is no frame.
 */
static struct owner_answer find_owner(struct owner_cache *c, struct mapping *m, uint32_t leaf)
{
	struct owner_answer answer = { OWNER_UNKNOWN, false };
	uint32_t id = leaf;
	bool innermost = true;

	for (int depth = 0; depth < STACK_DEPTH_MAX; depth++) {
		struct tfmt_frame frame;
		int owner;

		if (id < TFMT_STACK_FIRST || !tfmt_reader_frame(m->reader, id, &frame))
			break;
		id = frame.parent;
		if (frame.kind == TFMT_FRAME_NATIVE) /* a return address may be the first byte after a call */
			owner = owner_of_native(c, m, frame.a - !innermost, &answer);
		else if (frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY)
			owner = owner_of_python(m, &frame);
		else
			continue;
		innermost = false;
		answer.owner = owner == OWNER_NO_RULE ? OWNER_PROGRAM : (enum owner)owner;
		if (owner != OWNER_PASS_OVER)
			break;
	}
	return answer;
}

static void answers_release(struct owner_answers *a)
{
	free(a->answer);
	free(a->known);
	*a = (struct owner_answers){ 0 };
}

void owner_cache_release(struct owner_cache *c)
{
	answers_release(&c->native);
	answers_release(&c->python);
}

/* Make room for the answer to a stack, unless the trace defines far fewer. */
static void answers_grow(struct owner_answers *a, uint32_t leaf, const struct tfmt_reader *reader)
{
	uint32_t room = a->room;

	a->answer = idtable_grown(a->answer, &room, leaf, sizeof(*a->answer), reader);
	a->known = idtable_grown(a->known, &a->room, leaf, sizeof(*a->known), reader);
}

static struct owner_answer find_owner_once(struct owner_cache *c, struct owner_answers *a, struct mapping *m,
					    uint32_t leaf)
{
	if (leaf < TFMT_STACK_FIRST)
		return (struct owner_answer){ OWNER_UNKNOWN, false };
	if (leaf >= a->room)
		answers_grow(a, leaf, m->reader);
	if (leaf >= a->room)
		return find_owner(c, m, leaf);
	if (!a->known[leaf]) {
		a->answer[leaf] = find_owner(c, m, leaf);
		a->known[leaf] = true;
	}
	return a->answer[leaf];
}

struct owner_answer owner_of_call(struct owner_cache *c, struct mapping *m, uint32_t native_stack,
				   uint32_t python_stack)
{
	struct owner_answer native = find_owner_once(c, &c->native, m, native_stack), python;

	if (native.owner != (enum owner)OWNER_PASS_OVER)
		return native;
	python = find_owner_once(c, &c->python, m, python_stack);
	native.owner = python.owner < NR_OWNERS && python.owner != OWNER_UNKNOWN ? python.owner : OWNER_PROGRAM;
	return native;
}
