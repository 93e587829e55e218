/* SPDX-License-Identifier: MIT */
/*
 * stacktree: all distinct call stacks of the process as one tree, so that a stack is one number.
 *
 * A node is a frame under its next older frame; its id names the whole stack from the root down to it.
 * Ids are never reused. A node's definition is committed to the trace before anybody can see its id.
 *
 * Threading: any number of threads at once. Finding a node that exists takes no lock.
 */
#ifndef IP_STACKTREE_H
#define IP_STACKTREE_H

#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

#define STACKTREE_ROOT 0u
#define STACKTREE_MAX (4u << 20) /* nodes; stacks that need more are not captured */

/*
 * Begin with an empty tree, dropping an inherited one without touching its memory (fork child). While no
 * other thread uses the tree. False without memory; stacktree_child() then finds nothing.
 */
bool stacktree_init(void);

/*
 * The id (TFMT_STACK_FIRST or more) of frame (kind, a, b) under `parent` (an id, or STACKTREE_ROOT), made if
 * new. 0 if it could not be: table full, no memory, or its definition was not committed. The upper half of a Python
 * frame's `a` is the nn.Module that it calls (instances.h), 0 = none.
 */
uint32_t stacktree_child(uint32_t parent, enum tfmt_frame_kind kind, uint64_t a, int32_t b);

/* How many frames a stack has, down to its root. */
uint32_t stacktree_depth(uint32_t id);

#endif
