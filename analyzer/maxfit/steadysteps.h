/* SPDX-License-Identifier: MIT */
/*
 * Has a program that is running come so far that its steps repeat? A step is as steps.h has it; two *repeat* when they
 * have the same peaks, and end with the same memory allocated and reserved.
 */
#ifndef VT_STEADYSTEPS_H
#define VT_STEADYSTEPS_H

#include <stdbool.h>
#include <stdint.h>

struct steadysteps {
	uint32_t nr_steps; /* whole ones; of several processes with tensors, the fewest */
	bool is_steady;    /* the last two of all of them repeat, and neither is the first */
};

/* A recording that is looked at again and again while it is written; each event of it is read once. */
struct steadysteps_watch;
struct steadysteps_watch *steadysteps_watch_new(void); /* for steadysteps_watch_free() */
void steadysteps_watch_free(struct steadysteps_watch *w); /* NULL is allowed */

/* How far has it come? Always of the same recording. Returns 0, or CMD_TROUBLE after a message. */
int steadysteps_look(struct steadysteps_watch *w, struct steadysteps *s, const char *recording);

#endif
