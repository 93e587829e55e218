/* SPDX-License-Identifier: MIT */
/*
 * Where rings are memory of the traced process alone, `run` holds them, too (VRAMTRACE_RINGS=memory): recorders send it
 * a descriptor when they begin (libinterpose/ringmemory.c). When such a process is killed, `run` completes its trace
 * from what it holds. One keeper for a `run`; its main thread alone.
 */
#ifndef VT_KEEPER_H
#define VT_KEEPER_H

/* Begin to take descriptors. The name for VRAMTRACE_KEEPER, NULL if there is nothing to take them with. */
const char *keeper_open(void);

/* Take what has been sent; complete and let go of what is of processes that have ended. For each tick of a launch. */
void keeper_tick(void);

/* The descriptor of the rings of the trace at this path, -1 if they are not kept. Stays the keeper's. */
int keeper_find(const char *path);

#endif
