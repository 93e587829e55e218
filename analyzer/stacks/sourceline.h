/* SPDX-License-Identifier: MIT */
/* Lines of source code, and whether two frames are at the same one. A text may be NULL, which is like NULL only. */
#ifndef VT_SOURCELINE_H
#define VT_SOURCELINE_H

#include "analyzer/stacks/stack.h"

struct sourceline {
	const char *file, *function; /* they belong to whoever gave them; NULL if unknown */
	uint32_t line;               /* 0 if unknown */
};

struct sourceline sourceline_of(const struct stack_frame *frame);

/* Order by file, line and function; 0: they are the same. */
int sourceline_compare(const struct sourceline *a, const struct sourceline *b);

/* Are both of one function of one file? */
bool sourceline_is_same_function(const struct stack_frame *a, const struct stack_frame *b);

/* Are both at one line of one file? What runs there may be two functions: a comprehension, and what is around it. */
bool sourceline_is_same(const struct stack_frame *a, const struct stack_frame *b);

/* Are both at one line of one file, in the same function? */
bool sourceline_is_same_call(const struct stack_frame *a, const struct stack_frame *b);

#endif
