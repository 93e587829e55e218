/* SPDX-License-Identifier: MIT */
/* What grew, as rows of a table: for `check` and `diff`. */
#ifndef VT_PRINT_CHANGE_H
#define VT_PRINT_CHANGE_H

#include "analyzer/gate/compare.h"
#include "analyzer/ui/emit.h"

/* JSON members that name a device of a footprint: rank, process, device. */
void print_footprint_device(struct emit *e, const struct footprint_device *d);

/* A table of stacks; is_growth: with what they were before, else only what they hold. */
void print_changes(struct emit *e, const char *key, const struct compare_stack *row, uint32_t nr, bool is_growth);

/*
 * Text only: for each breakdown in which something grew, what grew most: "by phase: backward +1.20 GiB, forward +20 MiB".
 */
void print_grown_parts(struct emit *e, const struct compare_device *d);

#endif
