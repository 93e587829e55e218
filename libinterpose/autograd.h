/* SPDX-License-Identifier: MIT */
/*
 * autograd: what PyTorch's autograd nodes are called, and which Python line made each.
 *
 * A *node* stands for one operation of forward and computes its gradient in backward, on a thread that
 * mostly runs no Python. Each node takes a number from its thread's counter when forward makes it; the
 * Python stack of that moment is kept by thread and number, so that what the node allocates when it runs
 * can be told by the line of forward.
 *
 * Nothing here calls PyTorch: a node's class is read from its type information (Itanium C++ ABI), its
 * number and thread from where the type information of their base class says that they lie. If that is not
 * as expected, or the numbers are none that forward has kept, the node has a name only.
 *
 * Threading: anywhere, with the thread's `busy` set where nothing else is said.
 */
#ifndef IP_AUTOGRAD_H
#define IP_AUTOGRAD_H

#include <stdint.h>

#include "interpose.h"
#include "opencall.h"

/* The node begins to run on this thread, and is there: fill in what opencall.h keeps of it. Not busy. */
void autograd_node_begin(struct open_node *n, const void *node);

/*
 * The thread is about to record an event of the code at `at` (NULL: this): first record the end of the backward passes
 * that it has left by a jump. With t->busy set.
 */
IP_COLD void autograd_end_left_passes(struct ip_thread *t, const struct unwind_registers *at);

static inline void autograd_before_event(struct ip_thread *t)
{
	if (open_passes_doubtful(t->caller))
		autograd_end_left_passes(t, t->caller);
}

/*
 * This thread's Python stack as callstack_python() gives it, but inside a node: the frames that the node
 * runs, the node as a TFMT_FRAME_NODE, and the frames with which forward made it; those of its caller where
 * they are not known. *node is what open_node_find() has found; it becomes NULL if the frames show that it is not
 * where this thread is.
 */
uint32_t autograd_python_stack(struct ip_thread *t, struct open_node **node);

/*
 * Forward has just made a node of this number on the calling thread, `thread` (PyTorch's own id), with that
 * stack.
 */
void autograd_made(uint64_t thread, uint64_t number, uint32_t python_stack);

/*
 * The stack with which the calling thread has made its latest node; inside a node, only of those made there: two passes
 * through the same nodes have the same stacks, though one of them makes none.
 */
static inline uint32_t *autograd_made_stack(struct ip_thread *t, struct open_node *node)
{
	return node ? &node->made_stack : &t->made_stack;
}

#endif
