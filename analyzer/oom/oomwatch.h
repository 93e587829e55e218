/* SPDX-License-Identifier: MIT */
/*
 * Did a program get over running out of memory? A failed allocation counts as *unhandled* when its process failed and
 * the thread that asked has never been given memory of that device again.
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

bool oomwatch_is_unhandled(const struct oomwatch *w, const struct replay_device *d);
void oomwatch_release(struct oomwatch *w);

#endif
