/* SPDX-License-Identifier: MIT */
/*
 * Captured frames become tree nodes. Each thread remembers its previous stacks as *paths*: of what has not
 * changed since, hash and node are known. Stacks change by some frames from event to event, but few are
 * new: a hash of the whole stack mostly knows its id, and the nodes between are looked up only when
 * somebody needs them.
 */
#include "callstack.h"

#include "instances.h"
#include "interpose.h"
#include "pychain.h"
#include "pycode.h"
#include "pyframes.h"
#include "pywatch.h"
#include "stackmemo.h"
#include "stacktree.h"
#include "unwind_known.h"

#define PATH_MAX_STEPS (PYFRAMES_MAX + 1)
#define NODE_BASE_MAX 2048u /* frames below a node */

_Static_assert(PATH_MAX_STEPS > PYCHAIN_MAX && PATH_MAX_STEPS > UNWIND_MAX, "every stack fits");
_Static_assert(NODE_BASE_MAX + 1 + PATH_MAX_STEPS <= TFMT_STACK_DEPTH_MAX, "no reader cuts what we write");

/* A frame of a path. Those that are not shown have kind 0 and are what the step before them is. */
struct step {
	uint64_t hash; /* of the path down to here */
	uint64_t a;
	int32_t b;
	uint32_t kind; /* enum tfmt_frame_kind */
	uint32_t node; /* 0 = nobody has asked for it */
};

/* A stack, root first. */
struct path {
	uint32_t base; /* the node that it stands on: STACKTREE_ROOT, the caller's, or a cut */
	struct step step[PATH_MAX_STEPS];
};

/*
 * What stands for a long chain: its first PYFRAMES_OLDEST frames, a step for the nr_cut ones after them, the others.
 * Frames that are hidden have no step.
 */
struct deep {
	uint32_t nr_counted; /* levels for which `shown` holds */
	uint32_t nr_cut;     /* in the path */
	uint32_t shown[PYCHAIN_DEEP + 1]; /* frames among the levels up to this one that are not hidden */
	struct pychain chain;
};

struct callstack {
	struct path python, native;
	struct pycode_cache codes;
	struct pychain *chain;
	struct deep *deep; /* NULL until this thread has had a chain longer than PYCHAIN_MAX */
	struct pyframes frames;
	struct unwind_thread unwinding;
	struct unwind_known known;
	uint32_t native_leaf; /* the step whose address is one into its call */
	struct stackmemo path_ids, node_ids; /* of paths by their last step's hash, of nodes by node_key() */
};

void callstack_init(void)
{
	pyframes_init(false);
}

void callstack_start(enum unwind_choice unwinder)
{
	pycode_init();
	instances_init();
	stacktree_init();
	pyframes_init(true);
	if (pyframes_layout())
		pywatch_begin(pyframes_code_type());
	unwind_init(unwinder);
}

#define CHAIN_OFFSET ((sizeof(struct callstack) + 63) / 64 * 64)
#define CALLSTACK_BYTES (CHAIN_OFFSET + pychain_bytes(PYCHAIN_MAX))
#define DEEP_BYTES (offsetof(struct deep, chain) + pychain_bytes(PYCHAIN_DEEP))

struct callstack *callstack_thread_new(void)
{
	struct callstack *cs = ip_map(CALLSTACK_BYTES);

	if (!cs)
		return NULL;
	cs->chain = (struct pychain *)((char *)cs + CHAIN_OFFSET);
	cs->chain->max = PYCHAIN_MAX;
	return cs;
}

void callstack_thread_change(struct callstack *cs)
{
	cs->chain->nr = 0;
	cs->native_leaf = 0;
	unwind_table_leave_stack(&cs->unwinding);
}

void callstack_thread_free(struct callstack *cs)
{
	if (!cs)
		return;
	ip_unmap(cs->deep, DEEP_BYTES);
	ip_unmap(cs, CALLSTACK_BYTES);
}

/* ---- paths ------------------------------------------------------------------------------------- */

/*
 * Step i is this frame; the steps before it are in place. A polynomial: the frames' terms need not wait for
 * each other.
 */
static inline void path_set(struct path *p, uint32_t i, uint32_t kind, uint64_t a, int32_t b)
{
	uint64_t before = i ? p->step[i - 1].hash : p->base;
	uint64_t term = a + ((uint64_t)kind << 32 | (uint32_t)b) * 0xc2b2ae3d27d4eb4full;

	p->step[i] = (struct step){ .a = a, .b = b, .kind = kind, .hash = before };
	if (kind)
		p->step[i].hash = (before + term) * 0x9e3779b97f4a7c15ull;
}

/* The node of the first n steps, out of the tree; 0 if there is none. */
static IP_COLD uint32_t path_lookup(struct path *p, uint32_t n)
{
	uint32_t i = n, node = p->base;

	while (i && !p->step[i - 1].node)
		i--;
	if (i)
		node = p->step[i - 1].node;
	for (; i < n; i++) {
		struct step *s = &p->step[i];

		if (s->kind)
			node = stacktree_child(node, (enum tfmt_frame_kind)s->kind, s->a, s->b);
		if (s->kind && !node)
			return 0;
		s->node = node;
	}
	return node;
}

/* The id of the path's first n steps, looked up by the last one's hash. */
static inline uint32_t path_id(struct callstack *cs, struct path *p, uint32_t n)
{
	struct step *last = &p->step[n - 1];
	struct stackmemo_entry *known;

	if (last->node)
		return last->node;
	known = stackmemo_find(&cs->path_ids, last->hash);
	if (!known->id)
		known->id = path_lookup(p, n);
	last->node = known->id;
	return last->node;
}

/* ---- Python ------------------------------------------------------------------------------------ */

static inline uint32_t python_kind(bool entry)
{
	return entry ? TFMT_FRAME_PYTHON_ENTRY : TFMT_FRAME_PYTHON;
}

/* As stacktree_child() wants it: the code, and for whom it runs. */
static inline uint64_t frame_a(const struct pylevel *level)
{
	return level->id | (uint64_t)level->instance << 32;
}

/* What the chain has learned. The path's steps, 0 if code could not be interned. */
static uint32_t path_of_chain(struct path *p, const struct pychain *c, uint32_t kept)
{
	for (uint32_t i = kept; i < c->nr; i++) {
		const struct pylevel *level = pychain_level(c, i + 1);

		if (level->flags & PYLEVEL_HIDDEN)
			path_set(p, i, 0, 0, 0);
		else if (level->id)
			path_set(p, i, python_kind(level->flags & PYLEVEL_ENTRY), frame_a(level), level->position);
		else
			return 0;
	}
	return c->nr;
}

/* The thread's chain has grown beyond its room: one with more of it. */
static IP_COLD bool make_deep(struct callstack *cs)
{
	if (cs->deep)
		return false;
	cs->deep = ip_map(DEEP_BYTES);
	if (!cs->deep)
		return false;
	cs->chain = &cs->deep->chain;
	cs->chain->max = PYCHAIN_DEEP;
	return true;
}

static inline bool update_chain(struct callstack *cs, const void *newest, const void *until)
{
	const struct pylayout *l = pyframes_layout();

	if (!pywatch_code_type())
		return false;
	return pychain_update(cs->chain, &cs->codes, l, newest, until) ||
	       (cs->chain->too_many && make_deep(cs) && pychain_update(cs->chain, &cs->codes, l, newest, until));
}

/* Of the frames of all levels. */
static uint32_t count_shown(struct deep *d)
{
	const struct pychain *c = &d->chain;

	if (d->nr_counted > c->kept)
		d->nr_counted = c->kept;
	for (uint32_t i = d->nr_counted + 1; i <= c->nr; i++)
		d->shown[i] = d->shown[i - 1] + !(pychain_level(c, i)->flags & PYLEVEL_HIDDEN);
	d->nr_counted = c->nr;
	return d->shown[c->nr];
}

/* The first level with more than so many frames up to it; the levels up to `from` have no more. */
static uint32_t level_after(const struct deep *d, uint32_t from, uint32_t nr_shown)
{
	uint32_t low = from + 1, high = d->chain.nr + 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (d->shown[middle] > nr_shown)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* What path_of_chain() does, of a chain that may be a long one. *shown: how many frames there are to show. */
static IP_COLD uint32_t path_of_deep(struct path *p, struct deep *d, uint32_t kept, uint32_t *shown)
{
	const struct pychain *c = &d->chain;
	uint32_t total = count_shown(d), nr_cut = pyframes_nr_cut(total);
	uint32_t from = kept + 1;

	*shown = total;
	if (nr_cut != d->nr_cut && from > level_after(d, 0, PYFRAMES_OLDEST)) /* only the first steps stay */
		from = level_after(d, 0, PYFRAMES_OLDEST);
	d->nr_cut = nr_cut;
	for (uint32_t i = from; i <= c->nr; i++) {
		const struct pylevel *level = pychain_level(c, i);
		uint32_t n = d->shown[i];

		if (nr_cut && n > PYFRAMES_OLDEST && n <= PYFRAMES_OLDEST + nr_cut) {
			path_set(p, PYFRAMES_OLDEST, TFMT_FRAME_CUT, nr_cut, 0);
			i = level_after(d, i, PYFRAMES_OLDEST + nr_cut) - 1;
			continue;
		}
		if (level->flags & PYLEVEL_HIDDEN)
			continue;
		if (!level->id)
			return 0;
		path_set(p, nr_cut && n > PYFRAMES_OLDEST ? n - nr_cut : n - 1,
			 python_kind(level->flags & PYLEVEL_ENTRY), frame_a(level), level->position);
	}
	return total - nr_cut + (nr_cut > 0);
}

/*
 * All frames anew: of code that is not watched, or too many. The path's steps, 0 if code could not be
 * interned.
 */
static uint32_t path_of_frames(struct callstack *cs, const struct pyframes *f)
{
	uint32_t cut_at = f->nr_cut ? f->nr - PYFRAMES_OLDEST : UINT32_MAX, n = 0;

	for (uint32_t i = f->nr; i-- > 0;) {
		const struct pyframe *frame = &f->frame[i];
		uint32_t id = pycode_id(&cs->codes, pyframes_layout(), frame->code);

		if (!id)
			return 0;
		path_set(&cs->python, n++, python_kind(frame->entry), id, frame->position);
		if (i == cut_at)
			path_set(&cs->python, n++, TFMT_FRAME_CUT, f->nr_cut, 0);
	}
	return n;
}

uint32_t callstack_python_from(struct callstack *cs, uint32_t base, const void *newest, const void *until)
{
	uint32_t none = callstack_without_python(base), n, id, shown;
	struct path *p = &cs->python;
	bool same_base = p->base == base, apart;
	struct pychain *c;

	p->base = base;
	if (update_chain(cs, newest, until)) {
		c = cs->chain;
		apart = c->apart;
		if (cs->deep) {
			n = path_of_deep(p, cs->deep, same_base ? c->kept : 0, &shown);
			if (!shown)
				return none;
		} else {
			n = path_of_chain(p, c, same_base ? c->kept : 0);
		}
	} else {
		c = cs->chain;
		c->nr = 0;
		if (!pyframes_capture(&cs->frames, newest, until))
			return none;
		apart = cs->frames.apart;
		n = path_of_frames(cs, &cs->frames);
	}
	if (apart) {
		c->nr = 0;
		return CALLSTACK_APART;
	}
	if (n && p->step[n - 1].hash == base) /* no frame to show yet */
		return none;
	if (!pyframes_still_there()) { /* what has been read may be anything */
		c->nr = 0;
		return none;
	}
	id = n ? path_id(cs, p, n) : 0;
	if (id && pyframes_may_be_inside_another())
		id = stacktree_child(id, TFMT_FRAME_CUT, 0, 0);
	if (!id)
		c->nr = 0; /* the path is not whole */
	return id ? id : TFMT_STACK_NOT_CAPTURED;
}

uint32_t callstack_python(struct callstack *cs)
{
	const void *newest = pyframes_newest();

	return newest ? callstack_python_from(cs, STACKTREE_ROOT, newest, NULL) :
			callstack_without_python(STACKTREE_ROOT);
}

/*
 * What a node stands on may stand on a node itself, as where gradients of gradients are taken: no stack may become
 * longer than readers take.
 */
static uint32_t node_base(uint32_t older)
{
	uint32_t depth = stacktree_depth(older);

	return depth <= NODE_BASE_MAX ? older : stacktree_child(STACKTREE_ROOT, TFMT_FRAME_CUT, depth, 0);
}

/* The names of nodes are a program's first strings: their ids are small numbers. */
static inline uint64_t node_key(uint32_t older, uint32_t name, bool from_forward)
{
	return (uint64_t)older << 32 | name << 1 | from_forward;
}

/* The tree is everybody's and wide: what a thread needs of it again and again lies closer together here. */
uint32_t callstack_node(struct callstack *cs, uint32_t older, uint32_t name, bool from_forward)
{
	struct stackmemo_entry *known = stackmemo_find(&cs->node_ids, node_key(older, name, from_forward));

	if (!known->id)
		known->id = stacktree_child(node_base(older), TFMT_FRAME_NODE, name, from_forward);
	return known->id;
}

/* ---- native ------------------------------------------------------------------------------------ */

/* What is remembered of a return address. */
enum mark { MARK_NONE, MARK_OWN, MARK_PLAIN, MARK_RUNS_PYTHON };

static IP_COLD enum mark mark_of(const struct unwind_thread *u, uint32_t i)
{
	const struct unwind_level *l = &u->level[i];
	uint64_t high = i ? l[-1].sp : l->sp;

	if (unwind_is_own(l->ip))
		return MARK_OWN;
	return pyframes_run_in(l->ip, l->sp, high) ? MARK_RUNS_PYTHON : MARK_PLAIN;
}

/* The path's steps for the levels from `from` on. What a level is to us is a matter of its address alone. */
static void path_of_levels(struct path *p, struct unwind_thread *u, uint32_t from)
{
	for (uint32_t i = from; i < u->nr; i++) {
		const struct unwind_level *l = &u->level[i];
		struct unwind_address *known = &u->address[l->address];
		enum mark mark = (enum mark)known->mark;

		if (mark == MARK_NONE) {
			mark = mark_of(u, i);
			if (l->address)
				known->mark = mark & 7u;
		}
		path_set(p, i, mark == MARK_OWN ? 0 : TFMT_FRAME_NATIVE, l->ip, mark == MARK_RUNS_PYTHON);
	}
}

/* The stack from `at` on, walked; its id or 0. */
static uint32_t native_walked(struct callstack *cs, struct unwind_registers at)
{
	struct unwind_thread *u = &cs->unwinding;
	struct path *p = &cs->native;
	bool whole = unwind_capture(u, at);
	uint32_t base = whole ? STACKTREE_ROOT : stacktree_child(STACKTREE_ROOT, TFMT_FRAME_CUT, 0, 0);
	uint32_t kept = u->kept < cs->native_leaf ? u->kept : cs->native_leaf, n = u->nr;

	if (p->base != base)
		kept = 0;
	p->base = base;
	path_of_levels(p, u, kept);
	while (n && !p->step[n - 1].kind)
		n--;
	if (!n) {
		cs->native_leaf = 0;
		return 0;
	}
	cs->native_leaf = n - 1;
	path_set(p, n - 1, TFMT_FRAME_NATIVE, p->step[n - 1].a - 1, p->step[n - 1].b);
	return path_id(cs, p, n);
}

uint32_t callstack_native(struct callstack *cs, const struct unwind_registers *caller)
{
	struct unwind_registers at = caller ? *caller : UNWIND_CALLER();
	struct unwind_thread *u = &cs->unwinding;
	bool may_repeat = unwind_may_repeat(u);
	uint32_t id = may_repeat ? unwind_known_find(&cs->known, u, at) : 0;

	if (id) {
		u->nr_captures++;
		return id;
	}
	id = native_walked(cs, at);
	if (id && may_repeat && u->reusable)
		unwind_known_add(&cs->known, u, at, id);
	return id ? id : TFMT_STACK_NOT_CAPTURED;
}

/* The levels that a capture of stacks keeps are those of this walk afterwards. */
struct callstack_way callstack_way_to(struct callstack *cs, const struct unwind_registers *from,
				      const struct unwind_registers *to)
{
	struct unwind_thread *u = &cs->unwinding;
	bool whole = unwind_capture(u, *from);
	struct callstack_way way = { .root_sp = whole && u->nr ? u->level[0].sp : 0 };

	cs->native_leaf = 0;
	for (uint32_t i = 0; i < u->nr; i++) {
		const struct unwind_level *l = &u->level[i];

		way.met |= l->ip == to->ip && l->sp == to->sp;
		if (i && l[-1].sp - l->sp > way.longest_step)
			way.longest_step = l[-1].sp - l->sp;
	}
	return way;
}

const char *callstack_python_support(void)
{
	return pyframes_support();
}

bool callstack_native_available(void)
{
	return unwind_available();
}
