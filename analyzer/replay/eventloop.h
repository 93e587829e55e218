/* SPDX-License-Identifier: MIT */
/*
 * The loop over the events of one process: each is handed to training, to the ledger and to modules; names hear which
 * pass.
 *
 * An event passes three stations. Training hears of it first, while the books still stand as they stood before it: its
 * phase, whether a step begins, and what each group held there. Then the ledger enters it, and says of each tensor's block
 * that comes or goes, of totals and of marks (struct books_listener): from that training makes lives, and modules the path
 * of a block. Last, whoever has asked for it (replay_options.observe) sees the event and all three as they stand after it.
 */
#ifndef VT_EVENTLOOP_H
#define VT_EVENTLOOP_H

#include "analyzer/replay/replay.h"

/* Before the first event; p->books are those of the process, and p stays where it is until eventloop_release(). */
void eventloop_begin(struct replay_process *p, const struct replay_options *o);

/* The next events. */
void eventloop_enter(struct replay_process *p, const struct tfmt_event *ev, int nr, const struct replay_options *o);

/* Events are missing before the next. */
void eventloop_miss(struct replay_process *p);

/* After the last event, which was at `last_ns` (CLOCK_MONOTONIC). */
void eventloop_finish(struct replay_process *p, uint64_t last_ns);
void eventloop_release(struct replay_process *p);

#endif
