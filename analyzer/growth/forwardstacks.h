/* SPDX-License-Identifier: MIT */
/*
 * What forward's stacks have in common: do they run in modules with hooks, and has each step's batch another shape?
 *
 * A hook of some modules is a sign; hooks of all of them, as some libraries set them, are none. And where the batch is
 * larger in each step, nearly all that forward makes is, too: what of it is still there in the next step has grown, but
 * nothing stays. A cache that gets longer touches a part of forward only. What is *put together*, of the one before and a
 * tensor just as large as what has come on, is kept on purpose, however large the batch. Python stacks alone are looked at.
 */
#ifndef VT_FORWARDSTACKS_H
#define VT_FORWARDSTACKS_H

#include "analyzer/replay/replay.h"

/* Do most of forward's stacks lie in modules that have no hook of their own? */
bool forwardstacks_are_hooks_rare(const struct replay *m, const struct replay_device *d);

/* Is a stack's tensor the last that a module with hooks makes: its result, as far as can be told? */
bool forwardstacks_is_result(const struct replay *m, const struct replay_device *d, uint32_t python_stack);

/* Is it a result of a module with hooks, as most have none? A hook may keep it then. */
bool forwardstacks_is_hooked(const struct replay *m, const struct replay_device *d, uint32_t python_stack);

/* Does what a step needs follow a batch that is larger in each of nr_steps? */
bool forwardstacks_follow_batch(const struct replay_device *d, uint32_t nr_steps);

/* Is what the group's stack makes put together? */
bool forwardstacks_is_put_together(const struct replay_device *d, uint32_t group);

#endif
