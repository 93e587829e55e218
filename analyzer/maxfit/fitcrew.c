/* SPDX-License-Identifier: MIT */
/* Tries side by side. */
#include "analyzer/maxfit/fitcrew.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/launch_parts.h"
#include "analyzer/maxfit/proctree.h"

struct crew {
	struct fit_try **tries;
	size_t nr;
	const struct fit_plan *plan;
	fitcrew_ended *ended;
	void *context;
	pid_t *running; /* the processes of tries that run */
	size_t nr_running;
	int status, signal;
};

static struct fit_try *try_of(const struct crew *c, pid_t pid)
{
	for (size_t i = 0; i < c->nr; i++)
		if (c->tries[i]->pid == pid)
			return c->tries[i];
	return NULL;
}

static void list_running(struct crew *c)
{
	c->nr_running = 0;
	for (size_t i = 0; i < c->nr; i++)
		if (c->tries[i]->pid)
			c->running[c->nr_running++] = c->tries[i]->pid;
}

static void give_up(struct crew *c, int status)
{
	if (!c->status)
		c->status = status;
	for (size_t i = 0; i < c->nr; i++)
		c->tries[i]->is_moot = true;
}

static void has_ended(struct crew *c, struct fit_try *t, const siginfo_t *info)
{
	bool exited = info->si_code == CLD_EXITED;

	if (fittry_finish(t, c->plan, exited ? info->si_status : 0, exited ? 0 : info->si_status))
		give_up(c, CMD_TROUBLE);
	list_running(c);
	/* What the try's program left to itself has come to us. */
	proctree_kill_below(getpid(), c->running, c->nr_running);
	c->ended(t, c->context);
}

static void reap(struct crew *c)
{
	siginfo_t info;

	for (;;) {
		struct fit_try *t;

		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) || !info.si_pid)
			return;
		t = try_of(c, info.si_pid);
		if (t)
			has_ended(c, t, &info);
	}
}

/* One signal, or none for a tenth of a second. */
static void take_signal(struct crew *c, const sigset_t *watched)
{
	static const struct timespec tenth = { .tv_nsec = 100000000 };
	siginfo_t info;
	int signal = sigtimedwait(watched, &info, &tenth);

	if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)
		launch_stop_like(signal);
	if (signal <= 0 || !launch_asks_to_leave(signal))
		return;
	c->signal = signal;
	give_up(c, FITCREW_INTERRUPTED);
}

static void start_more(struct crew *c, unsigned jobs)
{
	for (size_t i = 0; i < c->nr; i++) {
		struct fit_try *t = c->tries[i];

		list_running(c);
		if (c->nr_running >= jobs)
			return;
		if (!t->began_ns && !t->is_moot && fittry_start(t, c->plan))
			give_up(c, CMD_TROUBLE);
	}
	list_running(c);
}

int fitcrew_run(struct fit_try **tries, size_t nr, unsigned jobs, const struct fit_plan *plan,
		fitcrew_ended *ended, void *context, int *signal)
{
	struct crew c = { .tries = tries, .nr = nr, .plan = plan, .ended = ended, .context = context };
	sigset_t watched;

	c.running = calloc(nr + 1, sizeof(*c.running));
	if (!c.running)
		return message_error("out of memory");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	launch_watch(&watched);
	start_more(&c, jobs);
	while (c.nr_running) {
		take_signal(&c, &watched);
		reap(&c);
		for (size_t i = 0; i < nr; i++)
			if (tries[i]->pid)
				fittry_tick(tries[i], plan);
		start_more(&c, jobs);
	}
	launch_unwatch(NULL);
	free(c.running);
	*signal = c.signal;
	return c.status;
}
