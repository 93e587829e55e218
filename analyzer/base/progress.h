/* SPDX-License-Identifier: MIT */
/*
 * One progress line on stderr for long work: shown only when stderr is a terminal (and TERM is not "dumb")
 * and the work has lasted half a second, redrawn at most ten times a second, wiped at the end. Cheap enough
 * to call per frame read; not per event. One at a time, single-threaded.
 */
#ifndef VT_PROGRESS_H
#define VT_PROGRESS_H

#include <stdint.h>

/* Begin: `what` is a verb phrase ("reading train.vtr"), copied. */
void progress_begin(const char *what);

/* `done` of `total` in any unit; total 0 = unknown. */
void progress_update(uint64_t done, uint64_t total);

/* Wipe the line. Without progress_begin() it does nothing. */
void progress_end(void);

/* Wipe the line for a moment, so that something else can be printed; the next update redraws it. */
void progress_hide(void);

#endif
