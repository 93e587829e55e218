/* SPDX-License-Identifier: MIT */
/* Modules of blocks whose stacks do not tell them: parameters that `.to()` moved, and the optimizer's state. */
#ifndef VT_CATEGORY_MODULES_H
#define VT_CATEGORY_MODULES_H

#include "analyzer/purpose/category.h"

/*
 * Match, among blocks of one shape, parameters with the gradients of a pass, which are made in the opposite order, and
 * then optimizer state with parameters, where there are as many of one as of the other.
 */
void category_find_modules(struct categories *c, const struct replay_process *process);

#endif
