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

/* Look at its recording, which may still be written. Returns 0, or CMD_TROUBLE after a message. */
int steadysteps_look(struct steadysteps *s, const char *recording);

#endif
