/* SPDX-License-Identifier: MIT */
/*
 * What runs, as rows: one for each process and device, and one for a process that has used none yet. Opened for all that is
 * recorded on this machine, for one process with those below it, or for a recording; looked at again and again; closed. A
 * process that has ended while it was followed keeps its rows. Nothing of this is noticed by what is looked at.
 */
#ifndef VT_LIVE_H
#define VT_LIVE_H

#include "analyzer/live/livefind.h"
#include "analyzer/live/livetrace.h"

struct liverow {
	struct livetrace *trace;
	const struct replay_process *process;
	const struct replay_device *device; /* NULL: it has used none yet; then all below but pace is 0 */
	struct livedevice *live;            /* of the device */
	uint64_t allocated_bytes, reserved_bytes, used_bytes;
	double share;                       /* of the capacity that is used; 0: the capacity is not known */
	double most_share;                  /* the same, the most since the last look */
	struct livesteps_pace pace;
	struct livesteps_growth growth;
	double oom_ns; /* from now to growth.oom_step, at the pace; NAN: not known */
};

enum live_sort { LIVE_BY_USED, LIVE_BY_ALLOCATED, LIVE_BY_SHARE, LIVE_BY_GROWTH, LIVE_BY_OOM, LIVE_BY_PID, NR_LIVE_SORTS };
extern const char *const live_sort_names[NR_LIVE_SORTS + 1]; /* "used", "allocated", ...; NULL at the end */

struct live {
	pid_t pid;             /* what is looked for: this process and those below it, */
	const char *recording; /* or this recording; neither: all */
	uint64_t interval_ns;  /* as livetrace_open() has it */
	enum live_sort sort;
	struct livetrace **trace; /* by when they were found */
	size_t nr_traces, traces_room;
	struct liverow *row; /* sorted; valid until the next look */
	size_t nr_rows, rows_room;
};

/*
 * Zeroed but for the first four: look for what there is, and read it. Returns 0, or CMD_TROUBLE after a message: there is
 * nothing. live_close() is needed either way.
 */
int live_open(struct live *l);
void live_close(struct live *l);

/* Read what has been written since, and look for processes that have begun. */
void live_look(struct live *l);

/* Sort the rows anew, after `sort` was changed. */
void live_sort(struct live *l);

/* Have all processes that were found ended? */
bool live_is_over(const struct live *l);

#endif
