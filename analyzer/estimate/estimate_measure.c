/* SPDX-License-Identifier: MIT */
/* What a recording says of a job's peak; see estimate_measure.h. */
#include "analyzer/estimate/estimate_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/launch.h"
#include "analyzer/launch/preload.h"
#include "analyzer/launch/scratch.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"

int estimate_measure_read(struct estimate_measured *m, const char *recording)
{
	struct replay replay = REPLAY_INIT;
	int ret = rules_load();

	if (!ret)
		ret = replay_load(&replay, recording, NULL);
	for (size_t i = 0; i < replay.nr_devices && !ret; i++) {
		const struct device_books *b = replay.device[i].books;

		if (!replay.device[i].has_tensors || b->allocated_peak_bytes < m->allocated_bytes)
			continue;
		*m = (struct estimate_measured){
			.is_known = b->allocated_peak_bytes > 0,
			.is_simulated = replay.simulated,
			.is_exact = replay_is_exact(replay.device[i].process),
			.allocated_bytes = b->allocated_peak_bytes,
			.reserved_bytes = b->reserved_peak_bytes,
			.driver_bytes = b->driver_peak_bytes,
		};
	}
	if (!ret && !m->is_known)
		ret = message_error("'%s' holds no tensors: nothing to compare with", recording);
	replay_release(&replay);
	return ret;
}

/* Results are ours alone to print. */
static int stdout_to_stderr(pid_t pid, void *context)
{
	(void)pid;
	(void)context;
	return dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? RUN_TROUBLE : 0;
}

static int record(const char *self, const char *path, const char *gpu, const char *const *program)
{
	const char *head[] = { self,        "run", "-q", "--simulate", gpu, "--simulate-capacity",
			       "unlimited", "-o",  path, "--" };
	size_t nr = 0, nr_head = sizeof(head) / sizeof(head[0]);
	struct launch_end end = { 0 };
	const char **argv;
	int status;

	while (program[nr])
		nr++;
	argv = heap_alloc(nr_head + nr + 1, sizeof(*argv));
	memcpy(argv, head, sizeof(head));
	memcpy(argv + nr_head, program, nr * sizeof(*program));
	status = launch_supervised(argv, stdout_to_stderr, NULL, &end);
	free(argv);
	if (status)
		return CMD_TROUBLE;
	if (end.signal)
		return message_error("'%s' was killed by signal %d: there is no whole step to measure",
				     program[0], end.signal);
	if (end.exit_status)
		return message_error("'%s' ended with status %d: there is no whole step to measure",
				     program[0], end.exit_status);
	return 0;
}

int estimate_measure(struct estimate_measured *m, const char *gpu, const char *const *program)
{
	char folder[PATH_MAX], path[sizeof(folder) + SCRATCH_ROOM], self[PATH_MAX];
	int ret = preload_own_program(self) ? CMD_TROUBLE : scratch_make(folder, "measure");

	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/step.vtr", folder);
	ret = record(self, path, gpu, program);
	if (!ret && access(path, F_OK))
		ret = message_error("'%s' used no GPU memory: nothing was measured", program[0]);
	if (!ret)
		ret = estimate_measure_read(m, path);
	scratch_remove(folder);
	return ret;
}
