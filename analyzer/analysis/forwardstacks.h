/* SPDX-License-Identifier: MIT */
/*
 * What forward's stacks have in common: do they run in modules with hooks, and has each step's batch another shape?
 *
 * A hook of some modules is a sign; hooks of all of them, as some libraries set them, are none. And where the batch is
 * larger in each step, nearly all that forward makes is, too: what of it is still there in the next step has grown, but
 * nothing stays. A cache that gets longer touches a part of forward only. Python stacks alone are looked at.
 */
#ifndef VT_FORWARDSTACKS_H
#define VT_FORWARDSTACKS_H

#include "analyzer/analysis/stepcauses.h"

/* Do most of forward's stacks in modules have none with a hook? Returns 0 or TFMT_E_NOMEM. */
int forwardstacks_are_hooks_rare(const struct stepcauses *c, bool *are_rare);

/* Does what a step needs follow a batch that is larger in each of nr_steps? Returns 0 or TFMT_E_NOMEM. */
int forwardstacks_follow_batch(const struct stepcauses *c, uint32_t nr_steps, bool *follow);

#endif
