/* SPDX-License-Identifier: MIT */
/* Run the named ranks of a job and stand in for them until all have ended (ranks.h). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/launch_parts.h"
#include "analyzer/launch/ranks.h"

#define GRACE_SECONDS 10 /* between asking the other ranks to end and killing them */

struct crew {
	const struct ranks *ranks;
	struct launch_end *end; /* of each rank; pid 0 = not started or gone */
	size_t nr_running;
	const struct launch_end *failure; /* of the rank that failed first */
	time_t kill_at;			  /* when the others are killed, 0 = not decided; CLOCK_MONOTONIC */
	bool *gone;
	bool interrupted; /* we were asked to leave */
};

struct entering {
	ranks_prepare *prepare;
	void *context;
	unsigned rank;
};

static int enter(pid_t pid, void *context)
{
	const struct entering *e = context;

	return e->prepare(pid, e->rank, e->context);
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static void send_all(const struct crew *c, int signal)
{
	for (size_t i = 0; i < c->ranks->nr; i++)
		if (c->end[i].pid > 0 && !c->gone[i])
			kill(c->end[i].pid, signal);
}

/* A job of which one rank has failed is over: the others would wait for it. */
static void abandon(struct crew *c)
{
	send_all(c, SIGTERM);
	c->kill_at = now() + GRACE_SECONDS;
}

static void say_failure(unsigned rank, const struct launch_end *end)
{
	if (end->signal)
		message_info("rank %u was ended by signal %d (%s); the other ranks are ended", rank, end->signal,
			     strsignal(end->signal));
	else
		message_info("rank %u ended with status %d; the other ranks are ended", rank, end->exit_status);
}

static void has_ended(struct crew *c, size_t i, const siginfo_t *info)
{
	struct launch_end *end = &c->end[i];

	end->signal = info->si_code == CLD_EXITED ? 0 : info->si_status;
	end->exit_status = info->si_code == CLD_EXITED ? info->si_status : 0;
	c->gone[i] = true;
	c->nr_running--;
	if (c->failure || (!end->signal && !end->exit_status))
		return;
	c->failure = end;
	if (!c->nr_running)
		return;
	if (!c->interrupted)
		say_failure(c->ranks->rank[i], end);
	abandon(c);
}

static size_t index_of(const struct crew *c, pid_t pid)
{
	size_t i = 0;

	while (i < c->ranks->nr && (c->end[i].pid != pid || c->gone[i]))
		i++;
	return i;
}

/* Take in every child that changed; orphans are reaped on the way. */
static void reap(struct crew *c)
{
	siginfo_t info;
	int stopped = 0;

	for (;;) {
		size_t i;

		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG) || !info.si_pid)
			break;
		i = index_of(c, info.si_pid);
		if (i == c->ranks->nr)
			continue;
		/* SIGSTOP was meant for that rank alone; the others are job control. */
		if (info.si_code == CLD_STOPPED)
			stopped = info.si_status != SIGSTOP ? info.si_status : stopped;
		else if (info.si_code != CLD_TRAPPED)
			has_ended(c, i, &info);
	}
	if (stopped)
		launch_stop_like(stopped);
}

/* Pass a signal on to the ranks that it has not reached without us. */
static void pass_on(struct crew *c, int signal, const siginfo_t *info)
{
	bool is_ours = info->si_code <= 0 && index_of(c, info->si_pid) < c->ranks->nr;

	c->interrupted |= launch_asks_to_leave(signal) && !is_ours;
	for (size_t i = 0; i < c->ranks->nr; i++)
		if (!c->gone[i] && !launch_reached(signal, info, c->end[i].pid))
			kill(c->end[i].pid, signal);
}

static void supervise(struct crew *c, const sigset_t *watched)
{
	while (c->nr_running) {
		siginfo_t info;
		int signal = launch_next_signal(watched, &info);

		if (signal == SIGCHLD)
			reap(c);
		else if (signal > 0)
			pass_on(c, signal, &info);
		if (c->kill_at && now() >= c->kill_at)
			send_all(c, SIGKILL);
	}
}

static int start_all(struct crew *c, const char *const *argv, struct entering *entering)
{
	int status = 0;

	for (size_t i = 0; i < c->ranks->nr && !status; i++) {
		entering->rank = c->ranks->rank[i];
		status = launch_start(argv, enter, entering, &c->end[i].pid);
		c->gone[i] = status != 0;
		c->nr_running += !status;
	}
	return status;
}

int ranks_supervised(const struct ranks *r, const char *const *argv, ranks_prepare *prepare, void *context,
		     struct launch_end *end)
{
	struct crew c = { .ranks = r };
	struct entering entering = { .prepare = prepare, .context = context };
	sigset_t watched;
	int status;

	c.end = heap_alloc(r->nr, sizeof(*c.end));
	c.gone = heap_alloc(r->nr, sizeof(*c.gone));
	launch_watch(&watched);
	status = start_all(&c, argv, &entering);
	if (status)
		abandon(&c);
	supervise(&c, &watched);
	*end = c.failure ? *c.failure : c.end[0];
	end->interrupted = c.interrupted;
	launch_unwatch(status ? NULL : end);
	free(c.end);
	free(c.gone);
	return status;
}
