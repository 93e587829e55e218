/* SPDX-License-Identifier: MIT */
/* Comparing lines of source code. */
#include "analyzer/stacks/sourceline.h"

#include <string.h>

static int compare_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : !!a - !!b;
}

static int compare_lines(const struct sourceline *a, const struct sourceline *b)
{
	int order = compare_texts(a->file, b->file);

	return order ? order : (a->line > b->line) - (a->line < b->line);
}

struct sourceline sourceline_of(const struct stack_frame *frame)
{
	return (struct sourceline){ frame->file, frame->function, frame->line };
}

int sourceline_compare(const struct sourceline *a, const struct sourceline *b)
{
	int order = compare_lines(a, b);

	return order ? order : compare_texts(a->function, b->function);
}

bool sourceline_is_same_function(const struct stack_frame *a, const struct stack_frame *b)
{
	return !compare_texts(a->file, b->file) && !compare_texts(a->function, b->function);
}

bool sourceline_is_same(const struct stack_frame *a, const struct stack_frame *b)
{
	struct sourceline x = sourceline_of(a), y = sourceline_of(b);

	return !compare_lines(&x, &y);
}

bool sourceline_is_same_call(const struct stack_frame *a, const struct stack_frame *b)
{
	struct sourceline x = sourceline_of(a), y = sourceline_of(b);

	return !sourceline_compare(&x, &y);
}
