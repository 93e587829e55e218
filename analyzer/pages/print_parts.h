/* SPDX-License-Identifier: MIT */
/* Printing which part of a model made most of what the step of a failure needs. */
#ifndef VT_PRINT_PARTS_H
#define VT_PRINT_PARTS_H

#include "analyzer/oom/autopsy.h"
#include "analyzer/ui/emit.h"

/* A sentence, where a part made most of it, or cross-attention did, and that matters; returns how many lines there are. */
unsigned print_parts(struct emit *e, const struct autopsy *a);

/* The object "parts", null where no module is known. */
void print_parts_object(struct emit *e, const struct autopsy *a);

#endif
