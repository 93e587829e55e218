/* SPDX-License-Identifier: MIT */
/* Which calls into PyTorch stand on a thread's stack: opencall.h says what is believed, and why. */
#include "opencall.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "callstack.h"
#include "pyframes.h"
#include "stackpool.h"

#define ROOT_MAX (64u << 10)  /* from a thread's first function to what the C library keeps above it */
#define FRAME_MAX (256u << 10) /* of frames between which nothing but the stack lies */

enum standing {
	GONE,  /* its hook has been left, or its stack is another one than this */
	AWAY,  /* this is another stack than the thread's own, on which the call may yet go on */
	STANDS,
};

/* ---- the thread's own stack ---------------------------------------------------------------------- */

extern void *__libc_stack_end; /* where the kernel has begun the first thread's */

/* A thread's variables lie right above its stack. */
static uint64_t stack_high(void)
{
	if (syscall(SYS_gettid) == getpid())
		return (uintptr_t)__libc_stack_end;
	return (uintptr_t)&ip_tls;
}

/* On a signal stack a walk goes on from the handler to what it has interrupted, on another stack. */
static bool on_signal_stack(void)
{
	stack_t stack;

	return !sigaltstack(NULL, &stack) && (stack.ss_flags & SS_ONSTACK);
}

/* A walk has come from sp to a thread's first function: was it on the thread's own stack all the way? */
static bool learn_stack(struct open_calls *o, uint64_t sp, const struct callstack_way *way)
{
	if (!way->root_sp || way->root_sp > o->high || o->high - way->root_sp > ROOT_MAX ||
	    way->longest_step > FRAME_MAX || on_signal_stack())
		return false;
	if (sp < o->low)
		o->low = sp;
	return true;
}

/* ---- a thread's calls ------------------------------------------------------------------------------ */

/* Not ip_map(): what a fork child inherits of its parent's stack is to go on there. */
struct open_calls *open_calls_make(void)
{
	static _Atomic uint64_t nr_made;
	uint32_t state = ip_state();
	int saved = errno;
	struct open_calls *o;

	if (state < IP_PREPARING || state > IP_RECORDING)
		return NULL;
	o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	if (o == MAP_FAILED)
		return NULL;
	o->last_serial = (atomic_fetch_add(&nr_made, 1) + 1) << 40;
	o->low = UINT64_MAX;
	o->high = stack_high();
	ip_tls.calls = o;
	ip_thread_remember();
	errno = saved;
	return o;
}

void open_calls_free(void)
{
	struct open_calls *o = ip_tls.calls;

	ip_tls.calls = NULL;
	if (o)
		munmap(o, sizeof(*o));
}

static void drop_nodes(struct open_calls *o, uint32_t depth)
{
	ip_tls.python_state = o->node[depth].held_before;
	o->nr_nodes = depth;
	o->careful = true;
}

static void drop_tensors(struct open_calls *o, uint32_t depth)
{
	o->nr_tensors = depth;
	o->careful = true;
}

void open_node_drop(struct open_node *n)
{
	struct open_calls *o = ip_tls.calls;

	drop_nodes(o, (uint32_t)(n - o->node));
}

/* ---- hooks begin and end ----------------------------------------------------------------------------- */

static inline void drop_left_nodes(struct open_calls *o, uint64_t sp)
{
	while (o->nr_nodes && open_is_left(o, &o->node[o->nr_nodes - 1].call, sp))
		drop_nodes(o, o->nr_nodes - 1);
}

struct open_node *open_node_push(struct open_calls *o, struct open_mark *m, const struct unwind_registers *at)
{
	struct open_node *n;

	drop_left_nodes(o, at->sp);
	if (o->nr_nodes == OPEN_NODES_MAX)
		drop_nodes(o, 0);
	n = &o->node[o->nr_nodes];
	open_note(o, &n->call, m, o->nr_nodes, at);
	atomic_signal_fence(memory_order_seq_cst); /* a handler finds it whole, or not at all */
	o->nr_nodes++;
	return n;
}

void open_tensors_make_room(struct open_calls *o, uint64_t sp)
{
	while (o->nr_tensors && open_is_left(o, &o->tensor[o->nr_tensors - 1].call, sp))
		drop_tensors(o, o->nr_tensors - 1);
	if (o->nr_tensors == OPEN_TENSORS_MAX)
		drop_tensors(o, 0);
}

void open_node_pop(struct open_mark *m)
{
	struct open_calls *o = ip_tls.calls;
	uint64_t serial = open_take_serial(m);

	if (!serial || !o || m->depth >= o->nr_nodes || o->node[m->depth].call.serial != serial)
		return;
	if (m->depth + 1 < o->nr_nodes) /* others above have not ended */
		o->careful = true;
	o->nr_nodes = m->depth;
	pyframes_release(o->node[m->depth].held_before);
}

bool open_pass_push(struct open_calls *o, struct open_mark *m, const struct unwind_registers *at, uint32_t depth)
{
	struct open_pass *p = &o->pass[o->nr_passes];

	if (o->nr_passes == OPEN_PASSES_MAX)
		return false;
	open_note(o, &p->call, m, o->nr_passes, at);
	p->depth = depth;
	atomic_signal_fence(memory_order_seq_cst);
	o->nr_passes++;
	return true;
}

bool open_pass_pop(struct open_mark *m, uint32_t *depth)
{
	struct open_calls *o = ip_tls.calls;

	if (!m->serial || !o || m->depth >= o->nr_passes || o->pass[m->depth].call.serial != m->serial) {
		open_take_serial(m);
		return false;
	}
	*depth = o->pass[--o->nr_passes].depth;
	if (m->depth < o->nr_passes)
		o->careful = true;
	return true;
}

uint32_t open_nodes_around(const struct unwind_registers *at)
{
	struct open_calls *o = ip_tls.calls;

	if (!o)
		return 0;
	drop_left_nodes(o, at->sp);
	return o->nr_nodes;
}

/* ---- what stands -------------------------------------------------------------------------------------- */

/* A walk from `from` to `to`; where there is no memory for it, one that has met nothing. */
static struct callstack_way way_to(struct ip_thread *t, const struct unwind_registers *from,
				   const struct unwind_registers *to)
{
	struct callstack *cs = stackpool_take(t);
	struct callstack_way way = { 0 };

	if (cs)
		way = callstack_way_to(cs, from, to);
	stackpool_give(t, cs);
	return way;
}

static IP_COLD enum standing look(struct ip_thread *t, struct open_calls *o, const struct open_call *c,
				  const struct unwind_registers *at)
{
	struct callstack_way way;
	bool here_own, call_own;

	if (open_is_own(o, at->sp) && open_is_own(o, c->at.sp) && (c->at.sp <= at->sp || !open_has_mark(c)))
		return GONE;
	way = way_to(t, at, &c->at);
	here_own = learn_stack(o, at->sp, &way) || open_is_own(o, at->sp);
	call_own = open_is_own(o, c->at.sp);
	if (way.met)
		return STANDS;
	return here_own || !call_own ? GONE : AWAY;
}

static inline enum standing standing(struct ip_thread *t, struct open_calls *o, const struct open_call *c,
				     const struct unwind_registers *at)
{
	struct unwind_registers here;

	if (at && open_stands_plainly(o, c, at->sp))
		return STANDS;
	if (!at) {
		here = UNWIND_CALLER();
		if (open_stands_plainly(o, c, here.sp))
			return STANDS;
		at = &here;
	}
	return look(t, o, c, at);
}

static struct open_node *node_from(struct ip_thread *t, struct open_calls *o, uint32_t nr,
				   const struct unwind_registers *at)
{
	for (; nr; nr--) {
		struct open_node *n = &o->node[nr - 1];
		enum standing is = standing(t, o, &n->call, at);

		if (is != GONE)
			return is == STANDS ? n : NULL;
		drop_nodes(o, nr - 1);
	}
	return NULL;
}

struct open_node *open_node_standing(struct ip_thread *t, struct open_calls *o, const struct unwind_registers *at)
{
	return node_from(t, o, o->nr_nodes, at);
}

/* Nodes that are gone are passed over, not dropped: with one go all that it is around, n among them. */
struct open_node *open_node_outer(struct ip_thread *t, struct open_node *n)
{
	struct open_calls *o = ip_tls.calls;

	for (uint32_t nr = (uint32_t)(n - o->node); nr; nr--)
		if (standing(t, o, &o->node[nr - 1].call, &n->call.at) == STANDS)
			return &o->node[nr - 1];
	return NULL;
}

struct open_tensor *open_tensor_standing(struct ip_thread *t, struct open_calls *o, const struct unwind_registers *at)
{
	while (o->nr_tensors) {
		struct open_tensor *p = &o->tensor[o->nr_tensors - 1];
		enum standing is = standing(t, o, &p->call, at);

		if (is != GONE)
			return is == STANDS ? p : NULL;
		drop_tensors(o, o->nr_tensors - 1);
	}
	return NULL;
}

bool open_pass_drop_gone(struct ip_thread *t, const struct unwind_registers *at, uint32_t *depth)
{
	struct open_calls *o = ip_tls.calls;

	if (!o || !o->nr_passes || standing(t, o, &o->pass[o->nr_passes - 1].call, at) != GONE)
		return false;
	*depth = o->pass[--o->nr_passes].depth;
	o->careful = true;
	return true;
}

bool open_node_is_certain(struct ip_thread *t, const struct open_node *n)
{
	struct unwind_registers here = t->caller ? *t->caller : UNWIND_CALLER();

	return way_to(t, &here, &n->call.at).met;
}

/* ---- calls of the runtime and NCCL ------------------------------------------------------------------------ */

/* A state to walk with where the thread is in no hook's recording; NULL if there is none. */
static struct ip_thread *idle_thread(void)
{
	return ip_state() == IP_RECORDING ? ip_thread_get() : NULL;
}

static bool walk_meets(struct ip_thread *t, const struct unwind_registers *frame, const struct unwind_registers *here)
{
	struct open_calls *o = open_calls();
	struct callstack_way way = way_to(t, here, frame);

	if (o)
		learn_stack(o, here->sp, &way);
	if (way.met || !way.root_sp)
		return way.met || frame->sp > here->sp || on_signal_stack();
	if (o)
		o->careful = true;
	return false;
}

bool open_frame_stands(struct ip_thread *t, const struct unwind_registers *frame, const struct unwind_registers *here)
{
	struct ip_thread *idle = NULL;
	bool stands;
	int saved = errno;

	if (!t)
		t = idle = idle_thread();
	if (idle)
		idle->busy = true;
	/* Both hooks were called from the same place of the stack, so neither is inside the other. */
	if (frame->sp == here->sp)
		stands = false;
	else
		stands = t ? walk_meets(t, frame, here) : frame->sp > here->sp || on_signal_stack();
	if (idle)
		idle->busy = false;
	errno = saved;
	return stands;
}

bool open_entry_stands(struct ip_thread *t, const struct open_call *c)
{
	const struct unwind_registers here = UNWIND_CALLER();
	const struct open_calls *o = ip_tls.calls;

	return (o && open_stands_plainly(o, c, here.sp)) || open_frame_stands(t, &c->at, &here);
}
