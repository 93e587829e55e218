/* SPDX-License-Identifier: MIT */
/* vramtrace run: record a program. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/checkpages/limit_options.h"
#include "analyzer/cmds/judge.h"
#include "analyzer/command.h"
#include "analyzer/gate/limits.h"
#include "analyzer/gpu/gpufile.h"
#include "analyzer/gpu/gpunames.h"
#include "analyzer/gpu/memorymodel.h"
#include "analyzer/gpu/realgpu.h"
#include "analyzer/launch/clibrary.h"
#include "analyzer/launch/hostlimits.h"
#include "analyzer/launch/keeper.h"
#include "analyzer/launch/launch.h"
#include "analyzer/launch/obstacle.h"
#include "analyzer/launch/output.h"
#include "analyzer/launch/preload.h"
#include "analyzer/launch/ranks.h"
#include "analyzer/launch/witnesses.h"
#include "analyzer/pages/closing.h"
#include "analyzer/recording/hostmemory.h"
#include "analyzer/recording/leftover.h"
#include "analyzer/ui/options.h"

#define REPEAT_MAX 1000
#define KEEP_LEAST (1ull << 20) /* the recorder takes no less: IP_KEEP_LEAST */

static const char *const stacks_names[] = { "python", "full", "none", NULL };
static const char *const values_names[] = { "auto", "off", NULL };
static const char *const unwinder_names[] = { "auto", "rules", "libgcc", "libunwind", NULL };
static const char *const rings_names[] = { "auto", "shm", "memory", "folder", NULL };
static const char *const cupti_names[] = { "on", "auto", "off", NULL };

struct run_opts {
	const char *output, *simulate, *capacity, *questions, *only;
	int stacks; /* index into stacks_names, -1 = as the environment has it */
	int values; /* index into values_names, the same */
	int cupti;  /* index into cupti_names, the same */
	int unwinder; /* index into unwinder_names, the same */
	int rings;  /* index into rings_names, the same */
	const char *keep, *keep_steps, *max_size;
	const char *ranks;
	int64_t gpus_per_node; /* 0 = as usual */
	int64_t repeat;
	bool force, no_record, exec, quiet, tracker, record_argv;
	const char *html;
	bool check;
	int64_t check_exit_code;
	struct limit_opts limits; /* of --check */
};

static const struct opt run_optv[] = {
	OPT_STRING('o', "output", struct run_opts, output, "REC",
		   "name it (%p pid, %h host, %j job, %r rank)"),
	OPT_FLAG(0, "force", struct run_opts, force, "replace the recording of another job"),
	OPT_ENUM(0, "stacks", struct run_opts, stacks, stacks_names, "of tensors; default python, full adds native"),
	OPT_STRING(0, "only", struct run_opts, only, "LIST", "record only these programs: python*,!torchrun"),
	OPT_ENUM(0, "unwinder", struct run_opts, unwinder, unwinder_names, "who walks native stacks"),
	OPT_CHOICE(0, "cupti", struct run_opts, cupti, cupti_names, "let CUPTI check what was recorded"),
	OPT_ENUM(0, "rings", struct run_opts, rings, rings_names, "where events lie until they are written"),
	OPT_FLAG(0, "tracker", struct run_opts, tracker, "have PyTorch's allocator tell more of itself"),
	OPT_FLAG(0, "record-argv", struct run_opts, record_argv, "keep all arguments of the programs, too"),
	OPT_STRING(0, "keep", struct run_opts, keep, "SIZE", "drop the oldest part: at most SIZE for each process"),
	OPT_STRING(0, "keep-steps", struct run_opts, keep_steps, "N", "... but keep the last N steps at least"),
	OPT_STRING(0, "max-size", struct run_opts, max_size, "SIZE", "drop nothing before it has nearly SIZE"),
	OPT_STRING(0, "simulate", struct run_opts, simulate, "GPU",
		   "run on a simulated GPU: h100, 2xh100, my-gpu.toml"),
	OPT_STRING(0, "simulate-capacity", struct run_opts, capacity, "SIZE",
		   "its memory: 24GiB, ... or unlimited"),
	OPT_ENUM(0, "simulate-values", struct run_opts, values, values_names,
		 "compute small integers and booleans"),
	OPT_STRING(0, "questions", struct run_opts, questions, "FILE",
		   "add what libraries are asked, for calibrate"),
	OPT_STRING(0, "ranks", struct run_opts, ranks, "LIST",
		   "only these of the job's ranks: 0,17"),
	OPT_INT(0, "gpus-per-node", struct run_opts, gpus_per_node, "N", "GPUs of one machine of that job"),
	OPT_FLAG(0, "no-record", struct run_opts, no_record, "only lend the simulated GPU"),
	OPT_INT(0, "repeat", struct run_opts, repeat, "N", "run it N times, show between what the peaks lie"),
	OPT_FLAG(0, "exec", struct run_opts, exec, "become the program: same pid, no closing lines"),
	OPT_FLAG('q', "quiet", struct run_opts, quiet, "no closing lines"),
	OPT_STRING(0, "html", struct run_opts, html, "FILE", "at the end write a page for a browser, as 'html' does"),
	OPT_FLAG(0, "check", struct run_opts, check, "then judge it, as 'check' does, by these limits:"),
	LIMIT_OPTIONS(struct run_opts, limits),
	OPT_INT(0, "check-exit-code", struct run_opts, check_exit_code, "N", "exit so when one is broken (3)"),
	OPT_END
};

static const struct opt_help run_help = {
	.command = "run",
	.purpose = "Run a program and record its GPU memory.",
	.usage = "[options] [--] PROGRAM [ARGUMENT ...]",
	.example = "vramtrace run -o train.vtr -- python train.py --epochs 3\n"
		   "vramtrace run --simulate h100 -- python train.py\n"
		   "vramtrace run --simulate 512xh100 --ranks 0,17 -- python train.py\n"
		   "vramtrace run --simulate h100 --check --max-peak 20GiB -- python train.py",
	.options = run_optv,
	.stop_at_positional = true,
};

/* All that the launched process needs to know. */
struct run {
	struct run_opts opts;
	const char *const *program; /* NULL-terminated */
	struct output output;
	char job[JOB_ID_MAX]; /* of a repeated one, without what names the run */
	struct preload preload;
	struct preload_plan plan;
	struct ranks ranks; /* of --ranks */
	struct gpufile gpu; /* of --simulate FILE.toml */
	struct memorymodel model;
	char questions[PATH_MAX];
	struct limits limits;
};

/* -o, else what an outer `run` or the user's environment has chosen, else NULL: the default name. */
static const char *output_pattern(const struct run *r)
{
	const char *pattern = getenv("VRAMTRACE_OUTPUT");

	if (r->opts.output)
		return r->opts.output;
	return pattern && *pattern ? pattern : NULL;
}

/* Options that do not go together. Returns 0 or RUN_TROUBLE after a message. */
static int check_options(const struct run_opts *o)
{
	const char *wrong = NULL;

	if (o->no_record && !o->simulate)
		wrong = "'--no-record' without '--simulate' leaves nothing to do";
	else if (o->capacity && !o->simulate)
		wrong = "'--simulate-capacity' needs '--simulate'";
	else if (o->values >= 0 && !o->simulate)
		wrong = "'--simulate-values' needs '--simulate'";
	else if (o->questions && !o->simulate)
		wrong = "'--questions' needs '--simulate'";
	else if (o->ranks && !o->simulate)
		wrong = "'--ranks' needs '--simulate NxGPU', the GPUs of the whole job";
	else if (o->ranks && o->exec)
		wrong = "'--ranks' and '--exec' exclude each other: a program that has replaced 'run' is one rank";
	else if (o->gpus_per_node && !o->ranks)
		wrong = "'--gpus-per-node' needs '--ranks'";
	else if (o->keep && o->max_size)
		wrong = "'--keep' and '--max-size' exclude each other: both limit what a process records";
	else if (o->keep_steps && o->max_size)
		wrong = "'--keep-steps' and '--max-size' exclude each other: say '--keep' for the limit";
	else if ((o->keep || o->keep_steps || o->max_size) && o->no_record)
		wrong = "'--no-record' leaves nothing to keep";
	else if (o->repeat < 1 || o->repeat > REPEAT_MAX)
		wrong = "'--repeat' takes a number from 1 to 1000";
	else if (o->repeat > 1 && o->exec)
		wrong = "'--repeat' and '--exec' exclude each other: a program that has replaced 'run' ends it";
	else if (o->repeat > 1 && o->no_record)
		wrong = "'--repeat' and '--no-record' exclude each other: there is nothing to compare";
	else if (o->html && (o->exec || o->no_record))
		wrong = o->exec ? "'--html' and '--exec' exclude each other: a program that has replaced 'run' ends it"
				: "'--html' and '--no-record' exclude each other: there is nothing to show";
	else if (limits_asked_for(&o->limits) && !o->check)
		wrong = "limits need '--check'";
	else if (o->check && (o->exec || o->no_record))
		wrong = o->exec ? "'--check' and '--exec' exclude each other: a program that has replaced 'run' ends it"
				: "'--check' and '--no-record' exclude each other: there is nothing to judge";
	else if (o->check_exit_code < 0 || o->check_exit_code > 255)
		wrong = "'--check-exit-code' takes a number from 0 to 255";
	if (wrong)
		opt_wrong(&run_help, "%s", wrong);
	return wrong ? RUN_TROUBLE : 0;
}

/* The size that an option gives, which must have a unit: a forgotten one would keep nothing to speak of. */
static int take_size(const char *option, const char *text, uint64_t *bytes)
{
	char least[HUMAN_MAX];

	if (!text)
		return 0;
	if (!human_parse_bytes(text, bytes)) {
		opt_wrong(&run_help, "'--%s' takes a size, not '%s': 2GiB, 500MiB", option, text);
		return RUN_TROUBLE;
	}
	if (text[strspn(text, "0123456789. ")] == 0) {
		opt_wrong(&run_help, "'--%s %s' has no unit: 2GiB, 500MiB", option, text);
		return RUN_TROUBLE;
	}
	if (*bytes < KEEP_LEAST) {
		opt_wrong(&run_help, "'--%s %s' is too small to hold anything: at least %s", option, text,
			  human_bytes(least, KEEP_LEAST));
		return RUN_TROUBLE;
	}
	return 0;
}

/* --keep, --max-size and --keep-steps. */
static int take_keep(struct run *r)
{
	int status = take_size("keep", r->opts.keep, &r->plan.keep_bytes);
	char *end;

	if (!status)
		status = take_size("max-size", r->opts.max_size, &r->plan.keep_bytes);
	if (status || !r->opts.keep_steps)
		return status;
	r->plan.keep_steps = strtoull(r->opts.keep_steps, &end, 10);
	if (*end || r->opts.keep_steps[0] < '0' || r->opts.keep_steps[0] > '9' || !r->plan.keep_steps ||
	    r->plan.keep_steps > UINT32_MAX) {
		opt_wrong(&run_help, "'--keep-steps' takes a number of 1 or more, not '%s'", r->opts.keep_steps);
		return RUN_TROUBLE;
	}
	return 0;
}

/* Each run of a repeated job is a job of its own: it records into a generation of its own. */
static void name_run(struct run *r, unsigned number)
{
	job_id_of_run(r->output.job, r->job, number, (unsigned)r->opts.repeat);
}

/* --simulate FILE.toml, after its count. An outer run's GPUs are others. */
static int take_gpu_file(struct run *r, const char *path)
{
	if (gpufile_read(&r->gpu, path) || memorymodel_make(&r->model, &r->gpu, r->opts.exec))
		return RUN_TROUBLE;
	r->plan.gpu = gpunames_find(r->gpu.base);
	r->plan.name = r->gpu.name;
	r->plan.model = r->model.path;
	unsetenv("SIMGPU_SHARE");
	return 0;
}

/* --ranks and --gpus-per-node; the devices of a process are those of its machine. */
static int take_ranks(struct run *r)
{
	int status = ranks_parse(&r->ranks, r->opts.ranks, r->plan.nr_gpus, r->opts.gpus_per_node);

	if (!status)
		status = ranks_understand_launcher(&r->ranks, r->program, r->opts.gpus_per_node != 0);
	if (status)
		return status;
	if (r->ranks.program)
		r->program = r->ranks.program;
	r->plan.nr_gpus = ranks_node_gpus(&r->ranks);
	return 0;
}

/* --questions: a name that holds in any folder, of a file that can be written. */
static int take_questions(struct run *r)
{
	int fd = open(r->opts.questions, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	if (fd < 0 || !realpath(r->opts.questions, r->questions)) {
		message_error("cannot write '%s': %s", r->opts.questions, strerror(errno));
		return RUN_TROUBLE;
	}
	close(fd);
	r->plan.questions = r->questions;
	return 0;
}

/* "a100" is a card of 80 GB here: said, as there is another. */
static void tell_meaning(const struct run *r)
{
	size_t asked = strlen(r->opts.simulate), known = strlen(r->plan.gpu);

	if (!r->opts.quiet && (asked < known || strcmp(r->opts.simulate + asked - known, r->plan.gpu) != 0))
		message_info("'%s' is simulated as '%s'", r->opts.simulate, r->plan.gpu);
}

/* --simulate. */
static int take_gpu(struct run *r)
{
	unsigned long count;
	const char *path = gpufile_named(r->opts.simulate, &count);
	unsigned max = r->opts.ranks ? RANKS_MAX_WORLD : PRELOAD_MAX_DEVICES;

	if (!path) {
		if (preload_parse_gpu(r->opts.simulate, max, &r->plan.gpu, &r->plan.nr_gpus))
			return RUN_TROUBLE;
		tell_meaning(r);
		return 0;
	}
	if (preload_check_count(r->opts.simulate, count, max, &r->plan.nr_gpus))
		return RUN_TROUBLE;
	return take_gpu_file(r, path);
}

/* Everything that can go wrong before the program starts. Returns 0 or an exit status. */
static int prepare(struct run *r)
{
	int status = check_options(&r->opts);

	/* A limit that is none is better said before an hour of training than after it. */
	if (!status && r->opts.check && limits_take(&r->limits, &r->opts.limits))
		status = RUN_TROUBLE;
	r->plan.is_recording = !r->opts.no_record;
	r->plan.only = r->opts.only;
	r->plan.stacks = r->opts.stacks >= 0 ? stacks_names[r->opts.stacks] : NULL;
	r->plan.values = r->opts.values >= 0 ? values_names[r->opts.values] : NULL;
	r->plan.tracker = r->opts.tracker;
	r->plan.argv = r->opts.record_argv;
	r->plan.unwinder = r->opts.unwinder >= 0 ? unwinder_names[r->opts.unwinder] : NULL;
	r->plan.rings = r->opts.rings >= 0 ? rings_names[r->opts.rings] : NULL;
	r->plan.keeper = r->plan.is_recording && !r->opts.exec ? keeper_open() : NULL;
	r->plan.cupti = r->opts.cupti >= 0 ? cupti_names[r->opts.cupti] : NULL;
	if (!status)
		status = take_keep(r);
	if (!status && r->opts.simulate)
		status = take_gpu(r);
	if (!status && r->opts.ranks)
		status = take_ranks(r);
	if (!status && r->opts.questions)
		status = take_questions(r);
	if (!status && r->opts.capacity)
		status = preload_parse_capacity(r->opts.capacity, &r->plan);
	if (!status)
		status = clibrary_check(r->program[0]);
	if (!status)
		status = preload_find(&r->preload, &r->plan);
	if (!status && r->plan.gpu)
		status = hostlimits_check(r->opts.quiet);
	if (!status && r->plan.gpu)
		gpushare_choose(&r->plan.share, r->plan.gpu, r->plan.nr_gpus);
	if (status || !r->plan.is_recording)
		return status;

	job_id(r->output.job);
	status = output_name(&r->output, output_pattern(r), r->program, getpid());
	/* All runs and all ranks go to one recording: its %p is our own pid. */
	if (r->opts.repeat > 1 || r->opts.ranks)
		r->output.is_per_process = false;
	if (r->opts.repeat > 1) {
		memcpy(r->job, r->output.job, sizeof(r->job));
		name_run(r, 1);
	}
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

static int enter_rank(pid_t pid, unsigned rank, void *context)
{
	struct run *r = context;
	int status = ranks_enter(&r->ranks, rank, &r->preload, &r->plan,
				 r->plan.is_recording ? r->output.job : NULL);

	return status ? status : enter(pid, r);
}

/* Run it once, as a program or as the ranks of a job. */
static int launch(struct run *r, struct launch_end *end)
{
	int status;

	if (!r->opts.ranks) {
		status = launch_supervised(r->program, enter, r, end);
		gpushare_remove(&r->plan.share);
		return status;
	}
	status = ranks_reserve_port(&r->ranks);
	if (!status)
		status = ranks_supervised(&r->ranks, r->program, enter_rank, r, end);
	ranks_release_port(&r->ranks);
	ranks_remove_shares(&r->ranks, &r->plan.share);
	return status;
}

/* --html. Trouble is said and otherwise ignored: the program's own status is what counts. */
static void write_page(const struct run *r, const struct launch_end *end)
{
	char path[PATH_MAX];
	const char *argv[] = { "html", "-o", r->opts.html, "--", path, NULL };

	if (closing_find(&r->output, end, path))
		cmd_html(5, argv);
	else
		message_error("cannot write '%s': nothing was recorded", r->opts.html);
}

/*
 * --check: say on stderr what is to be said of the recording, and end with the program's own failure, else with the
 * verdict's.
 */
static _Noreturn void end_judged(struct run *r, const struct launch_end *end)
{
	struct judge_opts judge = { .top = BLAMED, .quiet = true };
	char path[PATH_MAX];
	int status = CMD_TROUBLE;

	if (closing_find(&r->output, end, path))
		status = judge_recording(path, &r->limits, &judge, stderr);
	else
		message_error("could not tell whether limits are kept: nothing was recorded");
	limits_release(&r->limits);
	if (end->signal || end->exit_status || status == CMD_FINE)
		launch_end_as(end);
	exit(status == CMD_FINDING ? (int)r->opts.check_exit_code : RUN_TROUBLE);
}

static int run_replacing(struct run *r)
{
	int status = enter(getpid(), r);

	if (!status)
		status = launch_replacing(r->program);
	memorymodel_remove(&r->model);
	return status;
}

static void follow(void *before)
{
	hostmemory_follow(before);
	keeper_tick();
}

/* A program that finds no GPU uses none: there is another way. A simulated one may have been lent by an outer run. */
static void hint_simulation(const struct run *r)
{
	static struct realgpu g;

	if (!r->opts.quiet && !r->opts.simulate && !realgpu_ask(&g) && !strstr(g.why, "simulated"))
		message_info("no GPU of NVIDIA's answers here: %s; '--simulate h100' lends the program one", g.why);
}

static int run_supervised(struct run *r)
{
	struct launch_end end = { 0 };
	struct hostmemory before;
	int status;

	if (r->plan.is_recording)
		witnesses_open();
	hostmemory_read(&before, "");
	launch_on_tick(follow, &before);
	status = launch(r, &end);
	memorymodel_remove(&r->model);
	if (status)
		return status;
	if (r->plan.is_recording && r->output.is_per_process)
		status = output_name(&r->output, output_pattern(r), r->program, end.pid);
	if (r->plan.is_recording && !status)
		closing_note(&r->output, &end, &before);
	if (r->plan.is_recording && !status && !closing_lines(&r->output, &end, r->opts.quiet))
		hint_simulation(r);
	if (r->opts.html && !status)
		write_page(r, &end);
	if (r->opts.check && !status)
		end_judged(r, &end);
	launch_end_as(&end);
}

/* Run it again and again, until a signal ends it or us; the first run that failed decides the exit status. */
static int run_repeated(struct run *r)
{
	struct launch_end end = { 0 }, failure = { 0 };
	struct repeat repeat = REPEAT_INIT;
	struct hostmemory before;
	bool stopped = false;

	witnesses_open();
	for (unsigned number = 1; number <= r->opts.repeat && !stopped; number++) {
		int status;

		name_run(r, number);
		end = (struct launch_end){ 0 };
		hostmemory_read(&before, "");
		launch_on_tick(follow, &before);
		status = launch(r, &end);
		if (status) {
			memorymodel_remove(&r->model);
			return status;
		}
		closing_note(&r->output, &end, &before);
		closing_run(&r->output, &end, &repeat, number, r->opts.quiet);
		if (!failure.signal && !failure.exit_status)
			failure = end;
		stopped = end.interrupted || end.signal;
	}
	memorymodel_remove(&r->model);
	if (!r->opts.quiet)
		closing_repeat(&r->output, &repeat);
	repeat_release(&repeat);
	if (r->opts.html)
		write_page(r, &end);
	if (r->opts.check)
		end_judged(r, &failure);
	launch_end_as(&failure);
}

int cmd_run(int argc, const char **argv)
{
	static struct run r = { .opts = { .stacks = -1, .values = -1, .cupti = -1, .unwinder = -1, .rings = -1, .repeat = 1,
					  .check_exit_code = 3 },
				.ranks = RANKS_INIT };
	enum opt_result parsed = opt_parse(&run_help, &argc, argv, &r.opts);
	int status;

	if (parsed != OPT_OK)
		return parsed == OPT_HELPED ? 0 : RUN_TROUBLE;
	if (argc < 2) {
		opt_wrong(&run_help, "no program to run");
		return RUN_TROUBLE;
	}
	r.program = argv + 1;
	leftover_sweep();
	status = prepare(&r);
	if (status) {
		memorymodel_remove(&r.model);
		ranks_release(&r.ranks);
		return status;
	}
	if (r.opts.exec)
		return run_replacing(&r);
	return r.opts.repeat > 1 ? run_repeated(&r) : run_supervised(&r);
}
