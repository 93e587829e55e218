/* SPDX-License-Identifier: MIT */
/*
 * By whom was the function called that a stack's site lies in: by the program, by autograd or a module as a hook, or
 * by autograd as forward or backward of a custom Function? What such a function allocates and keeps is kept by the
 * hook or by the context, as far as frames can tell. And was it in a module's forward, and has that module a hook? Pure.
 */
#ifndef VT_FRAMEKIND_H
#define VT_FRAMEKIND_H

#include "analyzer/stacks/stack.h"

/* Is it one of the functions of Module that only lead from its call to its forward? */
bool frame_wraps_module(const struct stack_frame *f);

enum frame_kind { FRAME_PLAIN, FRAME_HOOK, FRAME_CONTEXT };

/*
 * Of frame `site` of the stack, or of what called it outside of PyTorch, up to the first of which it is known. Where it
 * cannot be told from a call to forward it is plain.
 */
enum frame_kind frame_kind_of(const struct stack *stack, int site);

enum frame_module {
	FRAME_NO_MODULE,     /* in no module's forward: backward, a loss that is a function, ... */
	FRAME_MODULE,        /* in a module's; with a PyTorch that does not tell, it may have hooks */
	FRAME_WITHIN_HOOKED, /* a module around it has hooks, itself has none */
	FRAME_HOOKED,        /* the module itself has hooks */
};

enum frame_module frame_module_of(const struct stack *stack);

/* The frame in which the innermost module with hooks calls its forward; nr_frames: there is none. */
uint32_t frame_hooked_call(const struct stack *stack);

#endif
