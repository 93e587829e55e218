/* SPDX-License-Identifier: MIT */
/*
 * opencall: calls into PyTorch, the CUDA runtime and NCCL that are in progress on a thread, and what their hooks know of
 * them for events inside: the shape of the tensor that is about to be allocated, the autograd node that runs, the backward
 * pass, the function that the program called.
 *
 * A call *stands* while the hook's frame is on the C stack that runs. Programs switch, copy and leave stacks (greenlets,
 * fibers, siglongjmp), and then a call may be gone without its hook having returned. So:
 *
 * - What is known of a call lies in the thread's own memory, copied: nothing here is ever written to a stack after the
 *   hook's own prologue, and no pointer into the program is followed for a call that might be gone.
 * - A hook that returns finds its call by the call's serial number, which it holds in its own frame (and which is thus
 *   copied away and back with it). Calls begun later that are still noted then are dropped. A hook whose call is noted
 *   no more changes nothing.
 * - Before a call is believed, its frame must lie above the stack pointer and still hold the serial, its *mark*. Both
 *   must be on the thread's own stack, of which a walk from there to the thread's first function has told how far it
 *   reaches: that memory can be read for as long as the thread lives. Anywhere else (fibers, signal stacks), and on a
 *   thread on which a call has once been found gone, a walk of the native stack has to meet the hook's caller.
 * - A call that is gone is dropped. When its stack comes back, what happens in it is told without that call. Of a backward
 *   pass the end is recorded then, before the event or pass at which this was noticed.
 *
 * Of the runtime and NCCL only the outermost call is noted, in struct ip_tls, and it is believed as long as neither a walk
 * nor, where none is to be had, the order of the two frames says that it is gone: without it an event has another name, or
 * is recorded twice.
 *
 * What remains: on a thread on which nothing of the kind has been noticed yet, a frame that was left by a jump is believed
 * until a hook is called above it, where deeper calls have left the mark untouched. That costs a wrong shape or node in
 * the recording, nothing in the program.
 *
 * Threading: all of it is the calling thread's own.
 */
#ifndef IP_OPENCALL_H
#define IP_OPENCALL_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose.h"
#include "shapes.h"
#include "unwind_rules.h"

/* A tensor about to be allocated. */
struct open_tensor {
	struct open_call call;
	int element_type;
	uint32_t nr_dims;
	bool strided; /* else contiguous */
	int64_t sizes[SHAPE_DIMS_MAX], strides[SHAPE_DIMS_MAX];
};

/* A node that runs on this thread. What is read of torch::autograd::Node is read at its beginning: then it is there. */
struct open_node {
	struct open_call call;
	const void *node;                /* torch::autograd::Node */
	const void *const *virtual_table;
	uint64_t thread, number;         /* see autograd.c; number UINT64_MAX = it has none, or it is not known */
	const void *frame;               /* this thread's newest Python frame when the node began, NULL = none */
	const void *held_before;         /* pyframes_hold() */
	uint32_t stack;                  /* its stack id once somebody has asked for it, else 0 */
	uint32_t generation;             /* struct ip_recorder's when that was: a fork child's ids are others */
	uint32_t made_stack;             /* as struct ip_thread's, of what runs inside */
};

/* A backward pass that this thread has begun. */
struct open_pass {
	struct open_call call;
	uint32_t depth; /* as its TFMT_PHASE_BEGIN has it */
};

#define OPEN_SERIAL_SPREAD 0x9e3779b97f4a7c15ull /* odd: no two serials become one */

#define OPEN_PASSES_MAX 64u
#define OPEN_NODES_MAX 64u /* PyTorch nests 60 backward passes on a thread, then goes on on another */
#define OPEN_TENSORS_MAX 8u

/* The calls of one thread; the index is the depth. A fork child inherits its parent's, as it inherits the stack. */
struct open_calls {
	uint64_t last_serial;
	uint64_t low, high; /* the thread's own stack as far as it is known; low UINT64_MAX = not at all */
	uint32_t nr_nodes, nr_tensors, nr_passes;
	bool careful;       /* a call has been found gone: only walks are believed now */
	struct open_node node[OPEN_NODES_MAX];
	struct open_tensor tensor[OPEN_TENSORS_MAX];
	struct open_pass pass[OPEN_PASSES_MAX];
};

/* What a hook keeps in its own frame; all zero: no call of its is noted. */
struct open_mark {
	uint64_t serial;
	uint32_t depth;
};

/* ---- for opencall.c and the functions below ---- */

static inline bool open_is_own(const struct open_calls *o, uint64_t sp)
{
	return sp >= o->low && sp <= o->high;
}

/* The call's frame would lie below sp, where the caller of another hook has its own: it cannot be there any more. */
static inline bool open_is_left(const struct open_calls *o, const struct open_call *c, uint64_t sp)
{
	return c->at.sp <= sp && c->at.sp >= o->low && open_is_own(o, sp);
}

static inline bool open_has_mark(const struct open_call *c)
{
	return unwind_load((uintptr_t)c->mark) == c->serial;
}

/* Both are on the thread's own stack, and no call has ever been found gone. */
static inline bool open_stands_plainly(const struct open_calls *o, const struct open_call *c, uint64_t sp)
{
	return sp >= o->low && c->at.sp > sp && c->at.sp <= o->high && !o->careful && open_has_mark(c);
}

static inline void open_note(struct open_calls *o, struct open_call *c, struct open_mark *m, uint32_t depth,
			     const struct unwind_registers *at)
{
	m->depth = depth;
	m->serial = ++o->last_serial * OPEN_SERIAL_SPREAD;
	c->serial = m->serial;
	c->mark = &m->serial;
	c->at = *at;
}

/* The mark is wiped, so that what is left of it on the stack says nothing. */
static inline uint64_t open_take_serial(struct open_mark *m)
{
	uint64_t serial = m->serial;

	*(volatile uint64_t *)&m->serial = 0;
	return serial;
}

IP_COLD struct open_calls *open_calls_make(void);
IP_COLD void open_tensors_make_room(struct open_calls *o, uint64_t sp);
struct open_node *open_node_standing(struct ip_thread *t, struct open_calls *o, const struct unwind_registers *at);
struct open_tensor *open_tensor_standing(struct ip_thread *t, struct open_calls *o, const struct unwind_registers *at);

/* ---- a thread's calls ---- */

/* This thread's calls, made at first use; NULL while nothing can be recorded, or without memory. Keeps errno. */
static inline struct open_calls *open_calls(void)
{
	return ip_tls.calls ? ip_tls.calls : open_calls_make();
}

/* Give back what open_calls() has made. The thread ends. */
void open_calls_free(void);

/*
 * Note a call of the hook whose frame holds m and whose caller stands at `at`: a node or a tensor, to be filled in. Those
 * that cannot stand any more are dropped first.
 */
struct open_node *open_node_push(struct open_calls *o, struct open_mark *m, const struct unwind_registers *at);
static inline struct open_tensor *open_tensor_push(struct open_calls *o, struct open_mark *m,
						   const struct unwind_registers *at)
{
	struct open_tensor *p;

	if (o->nr_tensors) /* a call within another: few are */
		open_tensors_make_room(o, at->sp);
	p = &o->tensor[o->nr_tensors];
	open_note(o, &p->call, m, o->nr_tensors, at);
	atomic_signal_fence(memory_order_seq_cst);
	o->nr_tensors++;
	return p;
}

/* The hook returns, or an exception passes it: its call is noted no more. */
void open_node_pop(struct open_mark *m);

static inline void open_tensor_pop(struct open_mark *m)
{
	struct open_calls *o = ip_tls.calls;
	uint64_t serial = open_take_serial(m);

	if (!serial || !o || m->depth >= o->nr_tensors || o->tensor[m->depth].call.serial != serial)
		return;
	if (m->depth + 1 < o->nr_tensors)
		o->careful = true;
	o->nr_tensors = m->depth;
}

/* How many nodes may stand around a hook whose caller stands at `at`. */
uint32_t open_nodes_around(const struct unwind_registers *at);

/*
 * The innermost node or tensor that stands around the code at `at` (NULL: this), for an event of t; NULL = none does.
 * Those that are gone are dropped.
 */
static inline struct open_node *open_node_find(struct ip_thread *t, const struct unwind_registers *at)
{
	struct open_calls *o = ip_tls.calls;
	struct open_node *n;

	if (!o || !o->nr_nodes)
		return NULL;
	n = &o->node[o->nr_nodes - 1];
	return at && open_stands_plainly(o, &n->call, at->sp) ? n : open_node_standing(t, o, at);
}

static inline struct open_tensor *open_tensor_find(struct ip_thread *t, const struct unwind_registers *at)
{
	struct open_calls *o = ip_tls.calls;
	struct open_tensor *p;

	if (!o || !o->nr_tensors)
		return NULL;
	p = &o->tensor[o->nr_tensors - 1];
	return at && open_stands_plainly(o, &p->call, at->sp) ? p : open_tensor_standing(t, o, at);
}

/* Note a backward pass likewise; false = there are too many, and the hook has to do without. */
bool open_pass_push(struct open_calls *o, struct open_mark *m, const struct unwind_registers *at, uint32_t depth);

/*
 * The hook of a pass returns: drops the innermost one noted, up to the hook's own, and says how deep it was. Until it returns
 * false: then the hook's own is not noted, or not any more.
 */
bool open_pass_pop(struct open_mark *m, uint32_t *depth);

/* Drop the innermost pass if it does not stand around the code at `at` (NULL: this), and say how deep it was; true if so. */
bool open_pass_drop_gone(struct ip_thread *t, const struct unwind_registers *at, uint32_t *depth);

/* May the innermost pass have to be dropped? It does not plainly stand around the code at `at` (NULL: this). */
static inline bool open_passes_doubtful(const struct unwind_registers *at)
{
	const struct open_calls *o = ip_tls.calls;

	return o && o->nr_passes && !(at && open_stands_plainly(o, &o->pass[o->nr_passes - 1].call, at->sp));
}

/* The node around this one, which stands; NULL = none stands. */
struct open_node *open_node_outer(struct ip_thread *t, struct open_node *n);

/* A walk of the native stack from here meets the node's hook. */
bool open_node_is_certain(struct ip_thread *t, const struct open_node *n);

/* ---- calls of the runtime and NCCL ---- */

/* Note the call of the hook that says this, in whose frame `mark` lies. */
static inline __attribute__((always_inline)) void open_entry_note(struct open_call *c, uint64_t *mark)
{
	*mark = (((uint64_t)(uintptr_t)&ip_tls << 16) + ++ip_tls.nr_entered) * OPEN_SERIAL_SPREAD;
	c->serial = *mark;
	c->mark = mark;
	c->at = UNWIND_CALLER();
	atomic_signal_fence(memory_order_seq_cst);
}

/* The hook returns: is its call the one that is noted? */
static inline bool open_entry_ends(const struct open_call *c, uint64_t *mark)
{
	uint64_t serial = *mark;

	*(volatile uint64_t *)mark = 0;
	return c->serial == serial;
}

/* Does the noted call stand around this code? t is the thread's busy state, or NULL where it is in no hook's recording. */
bool open_entry_stands(struct ip_thread *t, const struct open_call *c);

/* Does a walk from `here`, a hook's caller, meet `frame`, another's, further out? t as above. */
IP_COLD bool open_frame_stands(struct ip_thread *t, const struct unwind_registers *frame,
			       const struct unwind_registers *here);

/* The function of the runtime that the program has called and is in, 0 = none. t as above. */
static inline uint16_t open_origin(struct ip_thread *t)
{
	if (ip_tls.origin && !open_entry_stands(t, &ip_tls.runtime_call))
		ip_tls.origin = 0;
	return ip_tls.origin;
}

/* What hooks_nccl.c keeps in ip_tls.nccl of the call that the thread is in, 0 = none. t as above. */
static inline uint16_t open_nccl(struct ip_thread *t)
{
	if (ip_tls.nccl && !open_entry_stands(t, &ip_tls.nccl_call))
		ip_tls.nccl = 0;
	return ip_tls.nccl;
}

/* It has turned out that this node does not stand: drop it, and those that it is around. */
void open_node_drop(struct open_node *n);

#endif
