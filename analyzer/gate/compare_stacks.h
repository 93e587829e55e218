/* SPDX-License-Identifier: MIT */
/* Matching the stacks of two versions of a program (compare.h says how). */
#ifndef VT_COMPARE_STACKS_H
#define VT_COMPARE_STACKS_H

#include "analyzer/gate/compare.h"

/* Fill d->stack from the stacks of d->before and d->after, those that grew most first. */
void compare_stacks(struct compare_device *d);

/*
 * Take out the stacks that one side alone has and that hold less than min_bytes: the other side may have left its own
 * out. Returns by how much they grew together.
 */
int64_t compare_drop_small(struct compare_device *d, uint64_t min_bytes);

#endif
