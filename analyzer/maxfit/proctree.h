/* SPDX-License-Identifier: MIT */
/* The processes below one of ours, and their end: no program can object to SIGKILL, nor do anything on it. */
#ifndef VT_PROCTREE_H
#define VT_PROCTREE_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Kill every process below `root`, whatever sessions and groups they have made; not root itself, nor any of spare[nr]
 * and those below them. What is forked meanwhile may be missed: call it until root has nothing left to wait for.
 * Processes are those that /proc shows.
 */
void proctree_kill_below(pid_t root, const pid_t *spare, size_t nr);

#endif
