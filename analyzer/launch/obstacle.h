/* SPDX-License-Identifier: MIT */
/* What is in the way of a recording, looked at and cleared before the program starts. */
#ifndef VT_OBSTACLE_H
#define VT_OBSTACLE_H

#include <stdbool.h>

#include "analyzer/launch/output.h"

/*
 * A missing or unwritable folder is trouble; so is, for an interactive run, something that another job has
 * left. With `force` another job's traces are removed, never one that is being written. Returns 0, or
 * RUN_TROUBLE after a message.
 */
int obstacle_clear(const struct output *o, bool force, bool is_interactive);

/* After a run without a trace: an errno that says why none could be written, 0 if one could have been. */
int obstacle_left(const struct output *o);

#endif
