/* SPDX-License-Identifier: MIT */
/* Start a program and stand in for it until it ends. */
#include "analyzer/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/launch_parts.h"

#define TICK_NS 250000000 /* how often what goes on meanwhile is looked at */

/* Passed on to the program. The stopping ones are never acted upon here: we stop when the program has. */
static const int passed_on[] = { SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
				 SIGXCPU, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };

/* Our signal state as it was found before the first launch: the program gets it back. */
struct inherited {
	bool known;
	sigset_t mask;
	struct sigaction child_action, pipe_action;
};

static sigset_t watched_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&set, passed_on[i]);
	return set;
}

static int cannot_run(const char *program, int err)
{
	message_error("cannot run '%s': %s", program, strerror(err));
	return err == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

int launch_replacing(const char *const *argv)
{
	execvp(argv[0], (char *const *)argv);
	return cannot_run(argv[0], errno);
}

/* ---- the child ------------------------------------------------------------------------------- */

/* What the child writes into the pipe when it could not become the program. */
struct failure {
	int status; /* its own, already reported; else 0 */
	int err;    /* of exec */
};

static _Noreturn void become_program(const char *const *argv, pid_t parent, const struct inherited *in,
				     launch_prepare *prepare, void *context, int pipe_fd)
{
	struct failure failure = { 0 };
	pid_t seen;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The launcher may have died before that call. 0: it cannot be seen, in another pid namespace. */
	seen = getppid();
	if (seen != parent && seen != 0)
		raise(SIGKILL);

	failure.status = prepare(getpid(), context);
	if (!failure.status) {
		sigaction(SIGCHLD, &in->child_action, NULL);
		sigaction(SIGPIPE, &in->pipe_action, NULL);
		sigprocmask(SIG_SETMASK, &in->mask, NULL);
		execvp(argv[0], (char *const *)argv);
		failure.err = errno;
	}
	while (write(pipe_fd, &failure, sizeof(failure)) < 0 && errno == EINTR)
		;
	_exit(RUN_TROUBLE);
}

/* ---- supervising ----------------------------------------------------------------------------- */

void launch_stop_like(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	raise(signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Take in every child that changed: true once the program itself has ended. Orphans are reaped on the way. */
static bool reap(pid_t program, struct launch_end *end)
{
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG) || !info.si_pid)
			return false;
		if (info.si_pid != program)
			continue;
		if (info.si_code == CLD_STOPPED) {
			/* SIGSTOP was meant for the program alone; the others are job control. */
			if (info.si_status != SIGSTOP)
				launch_stop_like(info.si_status);
		} else if (info.si_code != CLD_TRAPPED) {
			end->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
			end->exit_status = info.si_code == CLD_EXITED ? info.si_status : 0;
			return true;
		}
	}
}

bool launch_reached(int signal, const siginfo_t *info, pid_t program)
{
	if (info->si_code <= 0)
		return info->si_pid == program;
	switch (signal) {
	case SIGINT:
	case SIGQUIT:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGWINCH:
		return true;
	case SIGHUP:
		return getsid(0) != getpid();
	default:
		return false;
	}
}

bool launch_asks_to_leave(int signal)
{
	return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTERM;
}

static struct {
	void (*call)(void *context);
	void *context;
} tick;

void launch_on_tick(void (*call)(void *context), void *context)
{
	tick.call = call;
	tick.context = context;
}

int launch_next_signal(const sigset_t *watched, siginfo_t *info)
{
	static const struct timespec interval = { .tv_nsec = TICK_NS };
	int signal = sigtimedwait(watched, info, &interval);

	if (signal < 0 && errno == EAGAIN && tick.call)
		tick.call(tick.context);
	return signal;
}

/* Wait for the program's end, passing signals on. */
static void supervise(pid_t program, const sigset_t *watched, struct launch_end *end)
{
	siginfo_t info;

	for (;;) {
		int signal = launch_next_signal(watched, &info);

		if (signal == SIGCHLD && reap(program, end))
			return;
		if (signal <= 0 || signal == SIGCHLD)
			continue;
		/* What the program itself sends to its group is not meant for us. */
		end->interrupted |= launch_asks_to_leave(signal) && (info.si_code > 0 || info.si_pid != program);
		if (!launch_reached(signal, &info, program))
			kill(program, signal);
	}
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct launch_end hurried_end;

_Noreturn void launch_end_as(const struct launch_end *end)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };
	struct rlimit no_core = { 0, 0 };
	sigset_t set;

	if (!end->signal)
		_exit(end->exit_status);
	/* The program has left its core; ours would say nothing. */
	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(end->signal, &plain, NULL);
	sigemptyset(&set);
	sigaddset(&set, end->signal);
	kill(getpid(), end->signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	/* PID 1 is not killed by its own signals. */
	_exit(128 + end->signal);
}

static void leave_now(int signal)
{
	(void)signal;
	launch_end_as(&hurried_end);
}

/* The watched signals stay blocked until this, so that none gets between the program's end and here. */
static void hurry_on_signal(const struct launch_end *end)
{
	static const int leaving[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2 };
	struct sigaction leave = { .sa_handler = leave_now }, ignore = { .sa_handler = SIG_IGN }, old;

	hurried_end = *end;
	/* A closed stderr must not change the program's status. */
	sigaction(SIGPIPE, &ignore, NULL);
	for (size_t i = 0; i < sizeof(leaving) / sizeof(leaving[0]); i++) {
		if (!sigaction(leaving[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(leaving[i], &leave, NULL);
	}
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Wait until the child is the program (the pipe closes) or says why not. 0 or a status. */
static int await_exec(int pipe_fd, const char *program)
{
	struct failure failure;
	ssize_t n;

	do
		n = read(pipe_fd, &failure, sizeof(failure));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(failure))
		return 0;
	return failure.status ? failure.status : cannot_run(program, failure.err);
}

static struct inherited inherited;

void launch_watch(sigset_t *watched)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };

	if (!inherited.known) {
		sigaction(SIGCHLD, NULL, &inherited.child_action);
		sigaction(SIGPIPE, NULL, &inherited.pipe_action);
		sigprocmask(SIG_BLOCK, NULL, &inherited.mask);
		inherited.known = true;
	}
	*watched = watched_signals();
	/* An ignored SIGCHLD would take the program's status away from us. */
	sigaction(SIGCHLD, &plain, NULL);
	sigprocmask(SIG_BLOCK, watched, NULL);
}

void launch_unwatch(const struct launch_end *end)
{
	if (end)
		hurry_on_signal(end);
	sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
}

int launch_start(const char *const *argv, launch_prepare *prepare, void *context, pid_t *pid)
{
	pid_t self = getpid();
	int fds[2], status;

	if (pipe2(fds, O_CLOEXEC)) {
		message_error("cannot start '%s': %s", argv[0], strerror(errno));
		return RUN_TROUBLE;
	}
	*pid = fork();
	if (!*pid)
		become_program(argv, self, &inherited, prepare, context, fds[1]);
	close(fds[1]);
	if (*pid < 0) {
		message_error("cannot start '%s': %s", argv[0], strerror(errno));
		status = RUN_TROUBLE;
	} else {
		status = await_exec(fds[0], argv[0]);
		if (status)
			waitpid(*pid, NULL, 0);
	}
	close(fds[0]);
	return status;
}

int launch_supervised(const char *const *argv, launch_prepare *prepare, void *context, struct launch_end *end)
{
	sigset_t watched;
	int status;

	launch_watch(&watched);
	status = launch_start(argv, prepare, context, &end->pid);
	if (!status)
		supervise(end->pid, &watched, end);
	launch_unwatch(status ? NULL : end);
	return status;
}
