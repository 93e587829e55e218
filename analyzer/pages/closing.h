/* SPDX-License-Identifier: MIT */
/* The last lines of `run`: where the recording is, what it says in short, and what to type next. */
#ifndef VT_CLOSING_H
#define VT_CLOSING_H

#include "analyzer/gate/repeat.h"
#include "analyzer/launch/launch.h"
#include "analyzer/launch/output.h"
#include "analyzer/recording/hostmemory.h"

/*
 * Where the program has failed, note with its recording what became of the host's memory since `before`. To be called
 * first.
 */
void closing_note(const struct output *output, const struct launch_end *end, const struct hostmemory *before);

/*
 * Complete the traces that this job left (tfmt_seal) and print at most twelve lines on stderr, none when
 * quiet. Trouble is said and otherwise ignored: the program's own status is what counts. Returns whether GPU memory was used,
 * as far as is known: false if nothing is recorded, and nobody has said why not.
 */
bool closing_lines(const struct output *output, const struct launch_end *end, bool quiet);

/*
 * What this job recorded, for commands to read: its folder, of a launcher among others the trace of its own program.
 * False if nothing was recorded.
 */
bool closing_find(const struct output *output, const struct launch_end *end, char path[static PATH_MAX]);

/*
 * The same for a job that was repeated: after each run, complete its traces, enter them into *r and say how it
 * went; after all, at most twelve lines about the range of the peaks.
 */
void closing_run(const struct output *output, const struct launch_end *end, struct repeat *r, unsigned number,
		 bool quiet);
void closing_repeat(const struct output *output, const struct repeat *r);

#endif
