/* SPDX-License-Identifier: MIT */
/* What an autopsy needs to be followed while a recording is read: failures, and how the cached memory is cut up. */
#ifndef VT_FAILUREWATCH_H
#define VT_FAILUREWATCH_H

#include "analyzer/allocator/frag.h"
#include "analyzer/failures/failures.h"

struct failurewatch {
	struct failures failures;
	struct frag frag;
};

void failurewatch_init(struct failurewatch *w);
void failurewatch_release(struct failurewatch *w);

/* How to replay for it: `w` is its observer, and needed until the replay is released. */
struct replay_options failurewatch_options(struct failurewatch *w);

#endif
