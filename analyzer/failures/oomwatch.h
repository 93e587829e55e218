/* SPDX-License-Identifier: MIT */
/*
 * Which threads asked for memory in vain, and were given memory of that device again? What follows for the program, says
 * fatal_to_program() (fatal.h).
 */
#ifndef VT_OOMWATCH_H
#define VT_OOMWATCH_H

#include "analyzer/replay/replay.h"

struct oomwatch_row {
	const struct replay_process *process;
	uint32_t device, thread;
	bool pending; /* nothing was given since */
};

struct oomwatch {
	struct oomwatch_row *row;
	size_t nr_rows;
};
#define OOMWATCH_INIT { 0 }

/* A struct replay_options observer; ctx is the watch. */
void oomwatch_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);

/* Did the process fail: killed, or an exit status other than 0? */
bool oomwatch_has_failed(const struct replay_process *p);

void oomwatch_release(struct oomwatch *w);

#endif
