/* SPDX-License-Identifier: MIT */
/*
 * Captured frames become tree nodes root first. Each thread remembers its previous stack: as long as frames
 * equal those, their nodes are known, and only what changed since is looked up.
 */
#include "callstack.h"

#include "interpose.h"
#include "pycode.h"
#include "pyframes.h"
#include "stacktree.h"
#include "unwind.h"

#define NATIVE_MAX 512u

struct level {
	uint64_t a;
	int32_t b;
	uint32_t kind; /* enum tfmt_frame_kind */
	uint32_t node;
};

/* A stack, root first: that of the previous capture, being overwritten by the current one. */
struct path {
	uint32_t nr;    /* levels that hold the previous stack */
	uint32_t depth; /* levels of the current one */
	bool same;      /* so far they are equal */
	struct level level[PYFRAMES_MAX + 1];
};

struct callstack {
	struct path python_path, native_path;
	struct pycode_cache codes;
	struct pyframes frames;
	uint64_t ip[NATIVE_MAX];
};

void callstack_init(void)
{
	pyframes_init(false);
}

void callstack_start(void)
{
	pycode_init();
	stacktree_init();
	pyframes_init(true);
	unwind_init();
}

struct callstack *callstack_thread_new(void)
{
	return ip_map(sizeof(struct callstack));
}

void callstack_thread_free(struct callstack *cs)
{
	if (cs)
		ip_unmap(cs, sizeof(*cs));
}

static void path_begin(struct path *p)
{
	p->depth = 0;
	p->same = true;
}

/* The node of the current stack so far. */
static uint32_t path_node(const struct path *p)
{
	return p->depth ? p->level[p->depth - 1].node : STACKTREE_ROOT;
}

/* One frame further from the root; false if it has no node. */
static bool path_add(struct path *p, enum tfmt_frame_kind kind, uint64_t a, int32_t b)
{
	struct level *l = &p->level[p->depth];
	uint32_t node;

	if (p->same && p->depth < p->nr && l->a == a && l->b == b && l->kind == kind) {
		p->depth++;
		return true;
	}
	p->same = false;
	node = stacktree_child(path_node(p), kind, a, b);
	if (!node)
		return false;
	*l = (struct level){ .a = a, .b = b, .kind = kind, .node = node };
	p->depth++;
	return true;
}

/* The finished stack's id. What was reached stays as the previous stack, finished or not. */
static uint32_t path_end(struct path *p, bool complete)
{
	p->nr = p->depth;
	return complete ? path_node(p) : TFMT_STACK_NOT_CAPTURED;
}

uint32_t callstack_python(struct callstack *cs)
{
	const struct pylayout *l = pyframes_layout();
	struct pyframes *f = &cs->frames;
	struct path *p = &cs->python_path;
	uint32_t cut_at = 0;
	bool ok = true;

	if (!pyframes_capture(f))
		return TFMT_STACK_NO_PYTHON;
	if (f->nr_cut)
		cut_at = f->nr - PYFRAMES_OLDEST;

	path_begin(p);
	for (uint32_t i = f->nr; ok && i-- > 0;) {
		uint32_t id = pycode_id(&cs->codes, l, f->frame[i].code);

		ok = id && path_add(p, TFMT_FRAME_PYTHON, id, f->frame[i].position);
		if (ok && cut_at && i == cut_at)
			ok = path_add(p, TFMT_FRAME_CUT, f->nr_cut, 0);
	}
	return path_end(p, ok);
}

uint32_t callstack_native(struct callstack *cs)
{
	struct path *p = &cs->native_path;
	bool cut, ok = true;
	uint32_t n = unwind_capture(cs->ip, NATIVE_MAX, &cut);

	if (!n)
		return TFMT_STACK_NOT_CAPTURED;
	cs->ip[0]--;
	path_begin(p);
	if (cut)
		ok = path_add(p, TFMT_FRAME_CUT, 0, 0);
	for (uint32_t i = n; ok && i-- > 0;)
		ok = path_add(p, TFMT_FRAME_NATIVE, cs->ip[i], 0);
	return path_end(p, ok);
}

bool callstack_finalizing(void)
{
	return pyframes_finalizing();
}

const char *callstack_python_support(void)
{
	return pyframes_support();
}

bool callstack_native_available(void)
{
	return unwind_available();
}
