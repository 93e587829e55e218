/* SPDX-License-Identifier: MIT */
/*
 * unwind_table: native stack walks by remembered rules (unwind_rules.h), a few nanoseconds a frame.
 *
 * Rules are remembered per return address and identity of the object it lies in, filled in at first sight:
 * the same addresses in a library that is loaded later are others. A thread looks its objects up again at
 * least every UNWIND_OBJECT_LIFE captures. Stacks are read only where libgcc has walked them before.
 *
 * Threading: walks anywhere; a struct unwind_thread belongs to one thread. No lock, no allocation.
 */
#ifndef IP_UNWIND_TABLE_H
#define IP_UNWIND_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_rules.h"

#define UNWIND_OBJECTS 32    /* remembered per thread */
#define UNWIND_OBJECT_LIFE 16 /* captures */

/* Return addresses being collected, innermost first, without those of this library. */
struct unwind_trace {
	uint64_t *ip;
	uint32_t nr, max;
	bool cut;                      /* there are more than max */
	uint64_t skip_start, skip_end; /* this library's code */
};

/* False when the trace is full. */
static inline bool unwind_trace_add(struct unwind_trace *t, uint64_t ip)
{
	if (!ip || (ip >= t->skip_start && ip <= t->skip_end))
		return true;
	if (t->nr == t->max) {
		t->cut = true;
		return false;
	}
	t->ip[t->nr++] = ip;
	return true;
}

struct unwind_known {
	struct unwind_object object;
	uint64_t looked_up; /* nr_captures then */
};

/* What a thread knows of its stack and of the objects on it. All zero: nothing. */
struct unwind_thread {
	uint64_t low, high; /* readable stack: libgcc's walks of it, joined */
	uint64_t nr_captures;
	uint32_t nr_known;
	struct unwind_known known[UNWIND_OBJECTS];
};

/* Of one frame: behind its call, and with the stack as the caller's own. */
struct unwind_registers {
	uint64_t ip, rsp, rbp;
};

/*
 * Collects the frames from `at` outwards. False if that needs libgcc: the stack is another than the thread's
 * known one, or a frame has no rule; then the trace holds nothing of use.
 */
bool unwind_table_walk(struct unwind_thread *u, struct unwind_registers at, struct unwind_trace *t);

/* libgcc has walked this stack without a gap: from rsp `low` to the outermost frame's rsp `high`. */
void unwind_table_learn(struct unwind_thread *u, uint64_t low, uint64_t high);

#endif
