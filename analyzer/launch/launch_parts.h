/* SPDX-License-Identifier: MIT */
/*
 * What launching one program (launch.h) and launching the ranks of a job (ranks_launch.c) have in common: signals
 * while we stand in for programs, and starting one.
 */
#ifndef VT_LAUNCH_PARTS_H
#define VT_LAUNCH_PARTS_H

#include <signal.h>
#include <stdbool.h>

#include "analyzer/launch/launch.h"

/* Block what we wait for or pass on, and say what that is; programs get back what was before the first call. */
void launch_watch(sigset_t *watched);

/* No longer. From now on a signal that asks us to leave makes us end as END, at once (NULL: as it always does). */
void launch_unwatch(const struct launch_end *end);

/*
 * Start argv as launch_supervised() does, between launch_watch() and launch_unwatch(). Returns 0 with *pid, or the
 * status to leave with after a message.
 */
int launch_start(const char *const *argv, launch_prepare *prepare, void *context, pid_t *pid);

/* The next of the watched signals as sigwaitinfo() gives it, or -1 soon, after a tick. */
int launch_next_signal(const sigset_t *watched, siginfo_t *info);

/*
 * Has this signal reached the program without us? What is typed at the terminal (^C, ^\, ^Z) goes to the whole process
 * group, and so does a hang-up, unless we lead the session; what the program sent to its group must not come back.
 */
bool launch_reached(int signal, const siginfo_t *info, pid_t program);

/* Does it ask a process to leave? SIGHUP, SIGINT, SIGQUIT, SIGTERM. */
bool launch_asks_to_leave(int signal);

/* Stop as a program was stopped, so that the shell that waits for us sees it; returns when continued. */
void launch_stop_like(int signal);

#endif
