/* SPDX-License-Identifier: MIT */
/*
 * Rings in shared memory stay when recorder and `run` are killed at once. They hold the end of a trace, and memory:
 * whoever comes next completes the trace from them and gives the memory back.
 */
#ifndef VT_LEFTOVER_H
#define VT_LEFTOVER_H

/* Before a trace is read: complete it if its process is gone and has left its rings. Nothing else changes it. */
void leftover_complete(const char *path);

/*
 * When a program is run: complete all traces of this user whose processes have been gone for a while, and drop rings
 * that have no trace any more since yesterday.
 */
void leftover_sweep(void);

#endif
