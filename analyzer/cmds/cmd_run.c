/* SPDX-License-Identifier: MIT */
/* vramtrace run: record a program. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analyzer/closing.h"
#include "analyzer/command.h"
#include "analyzer/hostlimits.h"
#include "analyzer/launch.h"
#include "analyzer/obstacle.h"
#include "analyzer/options.h"
#include "analyzer/output.h"
#include "analyzer/preload.h"
#include "analyzer/ui/message.h"

static const char *const stacks_names[] = { "python", "full", "none", NULL };

struct run_opts {
	const char *output, *simulate;
	int stacks; /* index into stacks_names, -1 = as the environment has it */
	bool force, no_record, exec, quiet;
};

static const struct opt run_optv[] = {
	OPT_STRING('o', "output", struct run_opts, output, "REC",
		   "name it (%p pid, %h host, %j job, %r rank)"),
	OPT_FLAG(0, "force", struct run_opts, force, "replace the recording of another job"),
	OPT_ENUM(0, "stacks", struct run_opts, stacks, stacks_names, "stacks of tensors (full: with native)"),
	OPT_STRING(0, "simulate", struct run_opts, simulate, "GPU",
		   "run on a simulated GPU: h100, 2xh100, ..."),
	OPT_FLAG(0, "no-record", struct run_opts, no_record, "only lend the simulated GPU"),
	OPT_FLAG(0, "exec", struct run_opts, exec, "become the program: same pid, no closing lines"),
	OPT_FLAG('q', "quiet", struct run_opts, quiet, "no closing lines"),
	OPT_END
};

static const struct opt_help run_help = {
	.command = "run",
	.purpose = "Run a program and record its GPU memory.",
	.usage = "[options] [--] PROGRAM [ARGUMENT ...]",
	.example = "vramtrace run -o train.vtr -- python train.py --epochs 3\n"
		   "vramtrace run --simulate h100 -- python train.py",
	.options = run_optv,
	.stop_at_positional = true,
};

/* All that the launched process needs to know. */
struct run {
	struct run_opts opts;
	const char *const *program; /* NULL-terminated */
	struct output output;
	struct preload preload;
	struct preload_plan plan;
};

/* -o, else what an outer `run` or the user's environment has chosen, else NULL: the default name. */
static const char *output_pattern(const struct run *r)
{
	const char *pattern = getenv("VRAMTRACE_OUTPUT");

	if (r->opts.output)
		return r->opts.output;
	return pattern && *pattern ? pattern : NULL;
}

/* Everything that can go wrong before the program starts. Returns 0 or an exit status. */
static int prepare(struct run *r)
{
	int status = 0;

	r->plan.is_recording = !r->opts.no_record;
	r->plan.stacks = r->opts.stacks >= 0 ? stacks_names[r->opts.stacks] : NULL;
	if (r->opts.no_record && !r->opts.simulate) {
		opt_wrong(&run_help, "'--no-record' without '--simulate' leaves nothing to do");
		return RUN_TROUBLE;
	}
	if (r->opts.simulate)
		status = preload_parse_gpu(r->opts.simulate, &r->plan.gpu, &r->plan.nr_gpus);
	if (!status)
		status = preload_find(&r->preload, &r->plan);
	if (!status && r->plan.gpu)
		status = hostlimits_check(r->opts.quiet);
	if (status || !r->plan.is_recording)
		return status;

	job_id(r->output.job);
	status = output_name(&r->output, output_pattern(r), r->program, getpid());
	if (!status)
		status = obstacle_clear(&r->output, r->opts.force, job_is_interactive());
	return status;
}

/* In the process that becomes the program: only now %p is known. */
static int enter(pid_t pid, void *context)
{
	struct run *r = context;
	int status = 0;

	if (r->plan.is_recording && r->output.is_per_process)
		status = output_name(&r->output, output_pattern(r), r->program, pid);
	r->plan.output = r->output.path;
	r->plan.job = r->output.job;
	return status ? status : preload_apply(&r->preload, &r->plan);
}

static int run_replacing(struct run *r)
{
	int status = enter(getpid(), r);

	return status ? status : launch_replacing(r->program);
}

static int run_supervised(struct run *r)
{
	struct launch_end end = { 0 };
	int status = launch_supervised(r->program, enter, r, &end);

	if (status)
		return status;
	if (r->plan.is_recording && r->output.is_per_process)
		status = output_name(&r->output, output_pattern(r), r->program, end.pid);
	if (r->plan.is_recording && !status)
		closing_lines(&r->output, &end, r->opts.quiet);
	launch_end_as(&end);
}

int cmd_run(int argc, const char **argv)
{
	static struct run r = { .opts = { .stacks = -1 } };
	enum opt_result parsed = opt_parse(&run_help, &argc, argv, &r.opts);
	int status;

	if (parsed != OPT_OK)
		return parsed == OPT_HELPED ? 0 : RUN_TROUBLE;
	if (argc < 2) {
		opt_wrong(&run_help, "no program to run");
		return RUN_TROUBLE;
	}
	r.program = argv + 1;
	status = prepare(&r);
	if (status)
		return status;
	return r.opts.exec ? run_replacing(&r) : run_supervised(&r);
}
