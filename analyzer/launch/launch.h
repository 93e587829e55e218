/* SPDX-License-Identifier: MIT */
/*
 * Start a program and stand in for it until it ends, so that whoever started us notices no difference.
 *
 * The program keeps our process group and terminal and is killed when we are. Signals that a process sent us
 * are passed on; those typed at the terminal reach the program by themselves. When it is stopped, we stop. As
 * PID 1 of a container we reap its orphans.
 */
#ifndef VT_LAUNCH_H
#define VT_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

/* How the program ended. */
struct launch_end {
	pid_t pid;
	int exit_status; /* valid when signal is 0 */
	int signal;      /* that killed it, or 0 */
	bool interrupted; /* we were asked to leave meanwhile: SIGHUP, SIGINT, SIGQUIT, SIGTERM */
};

/* Called in the child just before exec, to set its environment. Returns 0, or the status to leave with. */
typedef int launch_prepare(pid_t pid, void *context);

/*
 * Run argv (NULL-terminated, looked up in PATH) and wait for its end; may be called again. Returns 0 and fills *end, or one of
 * RUN_TROUBLE, RUN_NOT_EXECUTABLE, RUN_NOT_FOUND after a message: then the program did not start. Once it has
 * ended, a signal that asks us to leave makes us end as it did, at once: what is still to do is not worth
 * waiting for.
 */
int launch_supervised(const char *const *argv, launch_prepare *prepare, void *context,
		      struct launch_end *end);

/* While programs run, from the next launch on, this is called four times a second or so, with the context. */
void launch_on_tick(void (*call)(void *context), void *context);

/* Become the program: same pid. Returns only on failure, as above. */
int launch_replacing(const char *const *argv);

/* End as the program did: exit with its status, or die of the same signal (128 + N where that cannot be). */
_Noreturn void launch_end_as(const struct launch_end *end);

#endif
