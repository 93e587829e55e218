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
 * Threading: anywhere, with the thread's `busy` set.
 */
#ifndef IP_AUTOGRAD_H
#define IP_AUTOGRAD_H

#include <stdint.h>

#include "interpose.h"

struct callstack;

/* A node that runs on this thread; lies on the stack of the hook around it (hooks_autograd.c). */
struct running_node {
	const void *node;           /* torch::autograd::Node */
	const void *frame;          /* this thread's newest Python frame when the node began, NULL = none */
	struct running_node *outer; /* the node inside which this one runs: a backward within backward */
	uint32_t depth;             /* how many those are */
	uint32_t stack;             /* its stack id once somebody has asked for it, else 0 ... */
	uint32_t generation;        /* ... in this process (struct ip_recorder) */
	uint32_t made_stack;        /* as struct ip_thread's, of what runs inside */
	const void *held_before;    /* pyframes_hold() */
};

/*
 * This thread's Python stack as callstack_python() gives it, but inside a node: the frames that the node
 * runs, the node as a TFMT_FRAME_NODE, and the frames with which forward made it; those of its caller where
 * they are not known.
 */
uint32_t autograd_python_stack(struct callstack *cs);

/*
 * Forward has just made a node of this number on the calling thread, `thread` (PyTorch's own id), with that
 * stack.
 */
void autograd_made(uint64_t thread, uint64_t number, uint32_t python_stack);

/*
 * The stack with which the calling thread has made its latest node; inside a node, only of those made there: two passes
 * through the same nodes have the same stacks, though one of them makes none.
 */
static inline uint32_t *autograd_made_stack(struct ip_thread *t)
{
	return ip_tls.node ? &ip_tls.node->made_stack : &t->made_stack;
}

#endif
