/* SPDX-License-Identifier: MIT */
/* Advice (advice/advice.h): lines of a page, all of it, and JSON. */
#ifndef VT_PRINT_ADVICE_H
#define VT_PRINT_ADVICE_H

#include "analyzer/advice/advice.h"
#include "analyzer/ui/emit.h"

/* The `most` largest in a line each, after `indent`. Returns how many lines; without an e it only counts them. */
unsigned print_advice_brief(struct emit *e, const struct advices *all, const char *first, const char *indent,
			    unsigned most);

/* Each of the `most` largest with its line, evidence and cost. */
void print_advice(struct emit *e, const struct advices *all, unsigned most);

/* The array "advice" of the `most` largest. */
void json_advice(struct emit *e, const struct advices *all, unsigned most);

#endif
