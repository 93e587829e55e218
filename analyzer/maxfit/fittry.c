/* SPDX-License-Identifier: MIT */
/* Starting, watching and ending one try. */
#include "analyzer/maxfit/fittry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/launch_parts.h"
#include "analyzer/launch/output.h"
#include "analyzer/maxfit/proctree.h"
#include "analyzer/maxfit/steadysteps.h"
#include "analyzer/recording/generation.h"

#define LOOK_NS 250000000u /* between two looks at a recording, at least */
#define LOOK_SHARE 4       /* of them, at least so many times what a look takes: most of the time is the program's */
#define LINES_SHOWN 10

/* What CLOCK_MONOTONIC says. */
static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* A word of the program with the value in place of each "{}", in memory of its own. */
static char *with_value(const char *word, uint64_t value)
{
	char number[24], *out, *to;
	const char *from = word, *hole;
	size_t nr = 0;

	snprintf(number, sizeof(number), "%" PRIu64, value);
	for (hole = strstr(word, "{}"); hole; hole = strstr(hole + 2, "{}"))
		nr++;
	out = to = malloc(strlen(word) + nr * strlen(number) + 1);
	while (out && (hole = strstr(from, "{}"))) {
		to = mempcpy(to, from, (size_t)(hole - from));
		to = stpcpy(to, number);
		from = hole + 2;
	}
	if (out)
		strcpy(to, from);
	return out;
}

/* vramtrace run OPTIONS -- PROGRAM: the first *nr_own words are not to be freed. */
static const char **command_line(const struct fit_try *t, const struct fit_plan *plan, const char *recording,
				 size_t *nr_own)
{
	const char *gpu = plan->nr_gpus ? plan->gpu[t->gpu] : NULL;
	size_t n = 0, nr = 0;
	const char **argv;

	while (plan->program[nr])
		nr++;
	argv = calloc(nr + 16, sizeof(*argv));
	if (!argv)
		return NULL;
	argv[n++] = plan->self;
	argv[n++] = "run";
	argv[n++] = "-q";
	argv[n++] = "-o";
	argv[n++] = recording;
	if (gpu) {
		argv[n++] = "--simulate";
		argv[n++] = gpu;
	}
	if (plan->capacity) {
		argv[n++] = "--simulate-capacity";
		argv[n++] = plan->capacity;
	}
	argv[n++] = "--";
	*nr_own = n;
	for (size_t i = 0; i < nr; i++) {
		argv[n] = with_value(plan->program[i], t->value);
		if (!argv[n++])
			break;
	}
	return argv;
}

static void free_command_line(const char **argv, size_t nr_own)
{
	for (size_t i = nr_own; argv && argv[i]; i++)
		free((void *)argv[i]);
	free(argv);
}

/*
 * In the process that becomes `run`. What its program leaves behind becomes its child, so that all of a try
 * is found below it. Results are ours alone to print, and an outer run's GPUs are not shared with other
 * tries.
 */
static int become_try(pid_t pid, void *context)
{
	const struct fit_try *t = context;
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = open(t->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

	(void)pid;
	if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) {
		message_error("cannot write '%s': %s", t->output, strerror(errno));
		return RUN_TROUBLE;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	unsetenv("SIMGPU_SHARE");
	return dup2(out, STDERR_FILENO) < 0 ? RUN_TROUBLE : 0;
}

/* "GPU" as a part of a file's name. */
static void name_files(struct fit_try *t, const struct fit_plan *plan)
{
	char gpu[32] = "";

	if (plan->nr_gpus > 1)
		snprintf(gpu, sizeof(gpu), "gpu%u-", t->gpu + 1);
	snprintf(t->recording, sizeof(t->recording), "%.4000s/%s%" PRIu64 ".vtr", plan->folder, gpu,
		 t->value);
	snprintf(t->output, sizeof(t->output), "%.4000s/%s%" PRIu64 ".log", plan->folder, gpu, t->value);
}

int fittry_start(struct fit_try *t, const struct fit_plan *plan)
{
	char recording[2 * PATH_MAX];
	const char **argv;
	size_t nr_own = 0;
	int status;

	name_files(t, plan);
	output_escape(recording, t->recording);
	argv = command_line(t, plan, recording, &nr_own);
	if (!argv)
		return message_error("out of memory");
	t->began_ns = now_ns();
	t->look_ns = t->began_ns + LOOK_NS;
	status = launch_start(argv, become_try, t, &t->pid);
	free_command_line(argv, nr_own);
	if (status)
		t->pid = 0;
	return status ? CMD_TROUBLE : CMD_FINE;
}

/* ---- watching -------------------------------------------------------------------------------- */

static int is_trace(const struct dirent *entry)
{
	return generation_is_trace(entry->d_name);
}

static bool has_begun(const char *recording)
{
	struct dirent **entries;
	int n = scandir(recording, &entries, is_trace, NULL);

	for (int i = 0; i < n; i++)
		free(entries[i]);
	if (n >= 0)
		free(entries);
	return n > 0;
}

/* Has it shown what it takes? */
static bool is_far_enough(struct fit_try *t, const struct fit_plan *plan)
{
	struct steadysteps s;
	uint64_t began = now_ns();

	if (!plan->steps || began < t->look_ns || !has_begun(t->recording))
		return false;
	/* Trouble has been said, and the program ends some time by itself. */
	if (!t->watch)
		t->watch = steadysteps_watch_new();
	if (steadysteps_look(t->watch, &s, t->recording))
		s = (struct steadysteps){ 0 };
	t->nr_steps = s.nr_steps;
	t->look_ns = now_ns();
	t->look_ns += LOOK_NS + LOOK_SHARE * (t->look_ns - began);
	if (plan->steps == FITTRY_STEADY)
		return s.is_steady || s.nr_steps >= FITTRY_STEPS_MOST;
	return s.nr_steps >= plan->steps;
}

void fittry_tick(struct fit_try *t, const struct fit_plan *plan)
{
	if (!t->is_stopping)
		t->is_stopping = t->is_moot || is_far_enough(t, plan);
	/* `run` itself is left to complete the recording. */
	if (t->is_stopping)
		proctree_kill_below(t->pid, NULL, 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

int fittry_finish(struct fit_try *t, const struct fit_plan *plan, int exit_status, int signal)
{
	struct fit_result *r = &t->result;

	t->pid = 0;
	steadysteps_watch_free(t->watch);
	t->watch = NULL;
	r->ns = now_ns() - t->began_ns;
	r->is_stopped = t->is_stopping;
	if (t->is_moot)
		return 0;
	/* It may have come to its own end while it was being ended. */
	if (!t->is_stopping || signal != SIGKILL) {
		r->exit_status = exit_status;
		r->signal = signal;
	}
	return fitresult_read(r, t->recording, t->output, plan->headroom);
}

void fittry_show_output(const struct fit_try *t)
{
	char *line[LINES_SHOWN] = { NULL }, *one = NULL;
	FILE *in = fopen(t->output, "re");
	size_t room = 0, nr = 0;

	while (in && getline(&one, &room, in) >= 0) {
		free(line[nr % LINES_SHOWN]);
		one[strcspn(one, "\r\n")] = 0;
		line[nr++ % LINES_SHOWN] = one;
		one = NULL;
		room = 0;
	}
	for (size_t i = nr > LINES_SHOWN ? nr - LINES_SHOWN : 0; i < nr; i++)
		message_info("| %s", line[i % LINES_SHOWN]);
	for (size_t i = 0; i < LINES_SHOWN; i++)
		free(line[i]);
	free(one);
	if (in)
		fclose(in);
}
