/* SPDX-License-Identifier: MIT */
/*
 * A recorded stack as people read it: frames with file, line and function, innermost first.
 *
 * The *site* of a stack is the one frame that stands for it in a line of text: the innermost Python frame
 * that is not PyTorch's own, else the innermost Python frame, else the innermost native frame outside the
 * CUDA layer and, if there is one, outside PyTorch and the C library. What a simulated device puts between the
 * program and PyTorch to compute values is passed over.
 *
 * In backward, autograd runs a *node* for each operation of forward, mostly on a thread without Python. Such a
 * stack holds what the node runs, the node, then the frames of the call in forward that made the node.
 */
#ifndef VT_STACK_H
#define VT_STACK_H

#include "analyzer/stacks/mapping.h"
#include "analyzer/stacks/symbols.h"

struct stack_frame {
	bool python;
	bool node;            /* an autograd node that ran, no function: `function` is its class */
	bool from_forward;    /* of the call in forward that made the node, not of a caller */
	bool entry;           /* Python: called by native code */
	bool runs_python;     /* native: the caller of Python frames up to the next `entry` */
	bool framework;       /* PyTorch's own, the CUDA layer's or the C library's: folded in text */
	bool torch;           /* PyTorch's own: of the framework, too */
	bool simulation;      /* of a simulated device, between the program and the allocation: never a site */
	const char *file;     /* source file; NULL if unknown */
	const char *function; /* NULL if unknown */
	const char *module;   /* native: the mapped file's path; else NULL */
	uint64_t offset;      /* native: file offset of the address in the module, or the address itself */
	uint32_t line;        /* 0 if unknown */
	uint64_t cut;         /* not 0: this stands for so many older frames that were not recorded */
#define STACK_CUT_UNKNOWN UINT64_MAX /* nobody knows how many */
};

/* A stack: filled by stack_expand(), reused by the next; zero it before the first. */
struct stack {
	struct stack_frame *frame;
	uint32_t nr_frames;
	size_t room;

	/* private */
	struct stack_frame *spare;
	size_t spare_room;
};

/* Of one trace: its reader, its mapped files, and symbols (may be shared between traces). */
struct stack_source {
	const struct tfmt_reader *reader;
	struct mapping *mapping;
	struct symbols *symbols;
};

/*
 * The frames of python_stack and native_stack, innermost first; reserved ids have none. They are in the one order in
 * which they called each other, native ones of PyTorch within the Python frame that called it, where the two stacks
 * agree on how often native code called the interpreter; else the Python frames come first. Frames of forward come
 * after those of the thread that runs the node. Strings belong to the source.
 */
void stack_expand(struct stack *stack, const struct stack_source *source, uint32_t python_stack,
		  uint32_t native_stack);
void stack_release(struct stack *stack);

/* Index of the site's frame, -1 if the stack has none. */
int stack_site(const struct stack *stack);

/*
 * The innermost frame from this one on that is the program's own: Python code neither of an installed package nor of
 * Python itself. -1 if the stack has none.
 */
int stack_program(const struct stack *stack, int from);

/* The innermost autograd node, NULL if none ran. */
const struct stack_frame *stack_node(const struct stack *stack);

/* "file.py:12 in function", "libfoo.so+0x1234", ... at most `size` bytes, NUL included; returns buf. */
const char *stack_frame_text(char *buf, size_t size, const struct stack_frame *frame);

#endif
