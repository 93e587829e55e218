/* SPDX-License-Identifier: MIT */
/* One wait for another process: how long it has lasted, and how long to sleep between two looks. */
#ifndef SIMGPU_PATIENCE_H
#define SIMGPU_PATIENCE_H

#include <stdbool.h>

/* All zero: the wait has not begun. */
struct patience {
	double start, checked;		/* seconds of CLOCK_MONOTONIC */
	long pause_ns;
	bool is_mentioned;
};

/*
 * Sleep a little, longer each time up to a millisecond. Returns whether it is time for costly checks: each second.
 */
bool patience_pause(struct patience *p);

/* Whether the wait has lasted for LIMIT seconds. */
bool patience_over(const struct patience *p, double limit);

/* True once, when the wait has lasted long enough to tell the user: PATIENCE_MENTION_SECONDS. */
#define PATIENCE_MENTION_SECONDS 60
bool patience_mention(struct patience *p);

#endif
