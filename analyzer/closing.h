/* SPDX-License-Identifier: MIT */
/* The last lines of `run`: where the recording is, what it says in short, and what to type next. */
#ifndef VT_CLOSING_H
#define VT_CLOSING_H

#include "analyzer/launch.h"
#include "analyzer/output.h"

/*
 * Complete the traces that this job left (tfmt_seal) and print at most twelve lines on stderr, none when
 * quiet. Trouble is said and otherwise ignored: the program's own status is what counts.
 */
void closing_lines(const struct output *output, const struct launch_end *end, bool quiet);

#endif
