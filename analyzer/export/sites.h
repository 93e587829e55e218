/* SPDX-License-Identifier: MIT */
/* The line that stands for a stack (stack_site()), looked up once for each stack. */
#ifndef VT_SITES_H
#define VT_SITES_H

#include "analyzer/base/keyset.h"
#include "analyzer/replay/replay.h"

/* Zero before first use. */
struct sites {
	struct keyset stacks;
	char **text; /* by number of the stack, from 0 */
	size_t room;
	struct stack stack;
};

/* "train.py:36 in step"; NULL: the stack has no such line. Valid until sites_release(). */
const char *sites_find(struct sites *s, const struct replay *m, struct replay_process *p, uint32_t python,
		       uint32_t native);
void sites_release(struct sites *s);

#endif
