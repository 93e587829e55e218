/* SPDX-License-Identifier: MIT */
/*
 * Lines of text: prose at once, "label   value" pairs held back until something else follows, because the
 * labels of consecutive ones are aligned. Used by emit.c only. Memory running out ends the process.
 */
#ifndef VT_TEXTOUT_H
#define VT_TEXTOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyzer/base/term.h"

struct textout_pair {
	char *label, *value;
};

/* Zero but for out and colored before first use. */
struct textout {
	FILE *out;
	bool colored;
	int indent; /* blanks before each line */
	struct textout_pair *pairs;
	size_t nr_pairs, room;
};

/* A pair (both copied); a line of prose in a style (made printable in place). */
void textout_pair(struct textout *t, const char *label, const char *value);
void textout_line(struct textout *t, enum term_style style, char *text);

/* Print the pairs held back. */
void textout_flush(struct textout *t);
void textout_release(struct textout *t);

#endif
