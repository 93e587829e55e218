/* SPDX-License-Identifier: MIT */
/*
 * Captured frames become tree nodes root first. Each thread remembers its previous stack: as long as frames
 * equal those, their nodes are known, and only what changed since is looked up. Native stacks change by some
 * twenty frames from event to event, but few are new: a hash of the whole stack mostly knows its id.
 */
#include "callstack.h"

#include "interpose.h"
#include "pycode.h"
#include "pyframes.h"
#include "stacktree.h"
#include "unwind.h"

#define MEMO_BITS 12

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

struct native_level {
	uint64_t ip;
	uint64_t hash; /* of the stack down to here */
	uint32_t node; /* 0 = nobody has asked for it */
};

/* The previous native stack, root first, and ids of stacks by hash. */
struct native_path {
	uint32_t nr;
	bool cut;
	struct native_level level[UNWIND_MAX];
	struct {
		uint64_t hash;
		uint32_t id; /* 0 = none here */
	} memo[1 << MEMO_BITS];
};

struct callstack {
	struct path python_path;
	struct native_path native_path;
	struct pycode_cache codes;
	struct pyframes frames;
	struct unwind_thread unwinding;
	uint64_t ip[UNWIND_MAX];
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

/* The id of the stack in p, out of the tree; 0 if it has none. */
static IP_COLD uint32_t native_lookup(struct native_path *p)
{
	uint32_t i = p->nr, node = STACKTREE_ROOT;

	while (i && !p->level[i - 1].node)
		i--;
	if (i)
		node = p->level[i - 1].node;
	else if (p->cut && !(node = stacktree_child(STACKTREE_ROOT, TFMT_FRAME_CUT, 0, 0)))
		return 0;
	for (; i < p->nr; i++) {
		node = stacktree_child(node, TFMT_FRAME_NATIVE, p->level[i].ip, 0);
		if (!node)
			return 0;
		p->level[i].node = node;
	}
	return node;
}

/* The id of n frames, innermost first; 0 if it has none. */
static uint32_t native_id(struct native_path *p, const uint64_t *ip, uint32_t n, bool cut)
{
	const uint64_t *root = ip + n - 1;
	uint32_t i = 0, slot;
	uint64_t hash;

	if (cut != p->cut)
		p->nr = 0;
	p->cut = cut;
	while (i < p->nr && i < n && p->level[i].ip == root[-(int64_t)i])
		i++;
	hash = i ? p->level[i - 1].hash : cut;
	for (; i < n; i++) {
		hash = (hash ^ root[-(int64_t)i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
		p->level[i] = (struct native_level){ .ip = root[-(int64_t)i], .hash = hash };
	}
	p->nr = n;
	slot = (uint32_t)(hash >> (64 - MEMO_BITS));
	if (p->level[n - 1].node)
		return p->level[n - 1].node;
	if (!p->memo[slot].id || p->memo[slot].hash != hash) {
		p->memo[slot].hash = hash;
		p->memo[slot].id = native_lookup(p);
	}
	p->level[n - 1].node = p->memo[slot].id;
	return p->memo[slot].id;
}

uint32_t callstack_native(struct callstack *cs)
{
	uint32_t n, id;
	bool cut;

	n = unwind_capture(&cs->unwinding, cs->ip, UNWIND_MAX, &cut);
	if (!n)
		return TFMT_STACK_NOT_CAPTURED;
	cs->ip[0]--;
	id = native_id(&cs->native_path, cs->ip, n, cut);
	return id ? id : TFMT_STACK_NOT_CAPTURED;
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
