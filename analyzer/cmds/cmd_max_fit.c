/* SPDX-License-Identifier: MIT */
/* vramtrace max-fit: the largest value of an argument with which a program does not run out of memory. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gate/limits.h"
#include "analyzer/gpu/gpufile.h"
#include "analyzer/gpu/realgpu.h"
#include "analyzer/launch/launch.h"
#include "analyzer/launch/preload.h"
#include "analyzer/launch/scratch.h"
#include "analyzer/maxfit/fitcrew.h"
#include "analyzer/maxfit/fitsearch.h"
#include "analyzer/pages/print_fit.h"
#include "analyzer/ui/options.h"

#define GPUS_MAX 16
#define VALUES_MAX 64
#define TRIES_MAX 1024 /* far more than any search of 2^63 values makes on all GPUs */
#define VALUE_MOST (INT64_MAX / 2)
#define JOBS_USUAL 4 /* at once, if there are so many processors: each wants memory of this machine, too */

struct max_fit_opts {
	int64_t min, max, multiple_of, steps, jobs;
	const char *headroom, *values, *simulate, *capacity, *output;
	bool verbose, quiet;
	struct emit_opts emit;
};

static const struct opt max_fit_optv[] = {
	OPT_INT(0, "min", struct max_fit_opts, min, "N", "the smallest value to try (1)"),
	OPT_INT(0, "max", struct max_fit_opts, max, "N", "the largest value to try"),
	OPT_INT(0, "multiple-of", struct max_fit_opts, multiple_of, "N", "try multiples of N only"),
	OPT_STRING(0, "values", struct max_fit_opts, values, "LIST",
		   "search nothing: the peak by category of each: 512,1024"),
	OPT_STRING(0, "headroom", struct max_fit_opts, headroom, "PCT", "leave so much of the GPU free: 10%"),
	OPT_INT(0, "steps", struct max_fit_opts, steps, "N",
		"end a try after N steps, not when they repeat; 0: never"),
	OPT_STRING(0, "simulate", struct max_fit_opts, simulate, "LIST",
		   "on simulated GPUs, one after the other: a100-40,2xh100"),
	OPT_STRING(0, "simulate-capacity", struct max_fit_opts, capacity, "SIZE", "their memory: 24GiB"),
	OPT_INT('j', "jobs", struct max_fit_opts, jobs, "N",
		"tries at once on simulated GPUs (processors, up to 4)"),
	OPT_STRING('o', "output", struct max_fit_opts, output, "FOLDER",
		   "keep the tries' recordings in this new folder"),
	OPT_FLAG('q', "quiet", struct max_fit_opts, quiet, "do not tell of each try"),
	OPT_FLAG('v', "verbose", struct max_fit_opts, verbose, "list all tries"),
	EMIT_OPTIONS(struct max_fit_opts, emit),
	OPT_END
};

static const struct opt_help max_fit_help = {
	.command = "max-fit",
	.purpose = "Find the largest value with which a program does not run out of GPU memory.",
	.usage = "--max N [options] [--] PROGRAM [ARGUMENT ...] {}",
	.example = "vramtrace max-fit --max 512 -- python train.py --batch-size {}\n"
		   "vramtrace max-fit --max 512 --simulate a100-40,h100 -- python train.py --batch-size {}\n"
		   "vramtrace max-fit --values 512,1024,2048 --simulate h100 -- python train.py --length {}",
	.options = max_fit_optv,
	.stop_at_positional = true,
};

struct max_fit {
	struct max_fit_opts opts;
	struct fit_plan plan;
	const char *gpu[GPUS_MAX + 1]; /* parts of gpus */
	char *gpus;
	uint64_t values[VALUES_MAX];
	size_t nr_values;
	uint64_t first; /* candidates are first, first + multiple_of, ... */
	int64_t nr_candidates;
	unsigned jobs;

	struct fit_try *tries[TRIES_MAX];
	size_t nr_tries;
	struct fitsearch_point point[TRIES_MAX];
	size_t nr_points;
	struct fitsearch search; /* on one GPU */
	size_t nr_before;        /* tries before that */
	struct fit_answer answer[GPUS_MAX];
	const struct fit_try *trouble; /* a try that says nothing about memory */
	int signal;
};

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool has_hole(const char *const *program)
{
	for (size_t i = 1; program[i]; i++)
		if (strstr(program[i], "{}"))
			return true;
	return false;
}

static int take_values(struct max_fit *f)
{
	const char *text = f->opts.values;
	char *end;

	for (; *text; text = *end ? end + 1 : end) {
		unsigned long long value = strtoull(text, &end, 10);

		if (end == text || *text < '0' || *text > '9' || (*end && *end != ',') || !value ||
		    value > VALUE_MOST || (*end && !end[1]))
			return opt_wrong(&max_fit_help,
					 "'--values' takes numbers of 1 or more, not '%s': 512,1024",
					 f->opts.values);
		if (f->nr_values == VALUES_MAX)
			return opt_wrong(&max_fit_help, "'--values' takes at most %d values", VALUES_MAX);
		f->values[f->nr_values++] = value;
	}
	return f->nr_values ? 0 : opt_wrong(&max_fit_help, "'--values' is given none: 512,1024");
}

/* The candidates: multiples within --min and --max. */
static int take_range(struct max_fit *f)
{
	const struct max_fit_opts *o = &f->opts;

	if (!o->max)
		return opt_wrong(&max_fit_help, "'--max' is missing: the largest value to try");
	if (o->multiple_of < 1 || o->multiple_of > VALUE_MOST)
		return opt_wrong(&max_fit_help, "'--multiple-of' takes a number of 1 or more");
	if (o->min < 1 || o->max < o->min || o->max > VALUE_MOST)
		return opt_wrong(&max_fit_help,
				 "'--min %" PRId64 "' and '--max %" PRId64 "' have nothing between them",
				 o->min, o->max);
	f->first = (uint64_t)((o->min + o->multiple_of - 1) / o->multiple_of * o->multiple_of);
	if (f->first > (uint64_t)o->max)
		return opt_wrong(&max_fit_help,
				 "there is no multiple of %" PRId64 " from %" PRId64 " to %" PRId64,
				 o->multiple_of, o->min, o->max);
	f->nr_candidates = (o->max - (int64_t)f->first) / o->multiple_of + 1;
	return 0;
}

static int take_headroom(struct max_fit *f)
{
	uint64_t hundredths;
	char why[160];

	if (!f->opts.headroom)
		return 0;
	if (!limits_parse_percent(f->opts.headroom, &hundredths, why, sizeof(why)))
		return opt_wrong(&max_fit_help, "'--headroom': %s", why);
	if (hundredths >= 10000)
		return opt_wrong(&max_fit_help, "'--headroom %s' leaves nothing to use", f->opts.headroom);
	f->plan.headroom = (double)hundredths / 10000;
	return 0;
}

/* One of --simulate's list, as `run` would understand it. */
static int check_gpu(const char *text)
{
	unsigned long count;
	unsigned nr;
	const char *profile, *path = gpufile_named(text, &count);
	struct gpufile file = { 0 };
	int status;

	if (!path)
		return preload_parse_gpu(text, PRELOAD_MAX_DEVICES, &profile, &nr) ? CMD_TROUBLE : 0;
	status = preload_check_count(text, count, PRELOAD_MAX_DEVICES, &nr) || gpufile_read(&file, path);
	gpufile_release(&file);
	return status ? CMD_TROUBLE : 0;
}

static int take_gpus(struct max_fit *f)
{
	char *rest = NULL;

	f->gpus = heap_copy(f->opts.simulate);
	for (char *one = strtok_r(f->gpus, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		if (f->plan.nr_gpus == GPUS_MAX)
			return opt_wrong(&max_fit_help, "'--simulate' takes at most %d GPUs", GPUS_MAX);
		if (check_gpu(one))
			return CMD_TROUBLE;
		f->gpu[f->plan.nr_gpus++] = one;
	}
	f->plan.gpu = f->gpu;
	return f->plan.nr_gpus ? 0 : opt_wrong(&max_fit_help, "'--simulate' is given no GPU");
}

/* So many tries at once: a real GPU is one program's. */
static int take_jobs(struct max_fit *f)
{
	cpu_set_t cpus;
	int nr = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : CPU_COUNT(&cpus);

	if (f->opts.jobs < 0 || f->opts.jobs > FITSEARCH_MAX_ROOM)
		return opt_wrong(&max_fit_help, "'--jobs' takes 1 to %d", FITSEARCH_MAX_ROOM);
	if (f->opts.jobs > 1 && !f->plan.nr_gpus)
		return opt_wrong(&max_fit_help,
				 "'--jobs' needs '--simulate': a real GPU is for one try at a time");
	f->jobs = !f->plan.nr_gpus ? 1 : nr < JOBS_USUAL ? (unsigned)nr : JOBS_USUAL;
	if (f->opts.jobs)
		f->jobs = (unsigned)f->opts.jobs;
	return 0;
}

/* --simulate-capacity is checked here, so that it is said once and not by each try. */
static int check_capacity(const struct max_fit *f)
{
	struct preload_plan plan = { 0 };

	if (!f->opts.capacity)
		return 0;
	if (!f->opts.simulate)
		return opt_wrong(&max_fit_help, "'--simulate-capacity' needs '--simulate'");
	return preload_parse_capacity(f->opts.capacity, &plan) ? CMD_TROUBLE : 0;
}

static int need_gpu(void)
{
	static struct realgpu g;

	if (realgpu_ask(&g))
		return 0;
	return message_error("no GPU of NVIDIA's answers here: %s; '--simulate a100-40' simulates one", g.why);
}

/* Everything that can be wrong before the first try. */
static int prepare(struct max_fit *f)
{
	const struct max_fit_opts *o = &f->opts;
	int status;

	if (!f->plan.program[0])
		return opt_wrong(&max_fit_help, "no program to run");
	if (!has_hole(f->plan.program))
		return opt_wrong(&max_fit_help,
				 "no '{}' in the program's arguments: it stands for the value, as in "
				 "'--batch-size {}'");
	if (o->values && (o->max || o->min != 1 || o->multiple_of != 1))
		return opt_wrong(&max_fit_help, "'--values' excludes '--min', '--max' and '--multiple-of'");
	if (o->steps < FITTRY_STEADY || o->steps > UINT32_MAX)
		return opt_wrong(&max_fit_help, "'--steps' takes a number of 0 or more");
	status = o->values ? take_values(f) : take_range(f);
	if (!status)
		status = take_headroom(f);
	if (!status && o->simulate)
		status = take_gpus(f);
	if (!status)
		status = take_jobs(f);
	if (!status)
		status = check_capacity(f);
	if (!status && !o->simulate && !getenv("SIMGPU_PROFILE"))
		status = need_gpu();
	f->plan.capacity = o->capacity;
	f->plan.steps = o->steps;
	return status;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static int make_folder(struct max_fit *f)
{
	if (f->opts.output && (mkdir(f->opts.output, 0700) || !realpath(f->opts.output, f->plan.folder)))
		return message_error("cannot make '%s': %s", f->opts.output, strerror(errno));
	return f->opts.output ? 0 : scratch_make(f->plan.folder, "max-fit");
}

/* ---- tries ----------------------------------------------------------------------------------- */

/* Returns 0, or CMD_TROUBLE after a message. */
static int add_try(struct max_fit *f, unsigned gpu, uint64_t value, int64_t index)
{
	struct fit_try *t;

	if (f->nr_tries == TRIES_MAX)
		return message_error("cannot try more than %d times; name fewer GPUs, or a smaller '--max'", TRIES_MAX);
	t = heap_alloc(1, sizeof(*t));
	t->gpu = gpu;
	t->value = value;
	t->index = index;
	f->tries[f->nr_tries++] = t;
	return 0;
}

static void tell(const struct max_fit *f, const struct fit_try *t)
{
	char text[256], took[HUMAN_MAX];

	if (!f->opts.quiet)
		message_info("%s: %" PRIu64 " %s (%s)", print_fit_gpu(&f->plan, t), t->value,
			     print_fit_outcome(text, sizeof(text), &t->result), human_ns(took, t->result.ns));
}

static void give_up(struct max_fit *f, const struct fit_try *because)
{
	f->trouble = because;
	for (size_t i = 0; i < f->nr_tries; i++)
		f->tries[i]->is_moot |= f->tries[i]->result.outcome == FIT_UNKNOWN;
}

static void learn(struct max_fit *f, const struct fit_try *t)
{
	const struct fit_result *r = &t->result;

	if (r->capacity_bytes)
		f->search.capacity_bytes = (1 - f->plan.headroom) * (double)r->capacity_bytes;
	fitsearch_enter(&f->search, t->index, fitresult_fits(r));
	if (r->outcome == FIT_FITS || r->outcome == FIT_TIGHT)
		f->point[f->nr_points++] = (struct fitsearch_point){
			t->index, (double)r->used_bytes,
			(double)r->used_bytes - (double)(r->reserved_peak_bytes - r->allocated_peak_bytes)
		};
	/* Those that still run may have nothing left to tell, but that two points make a line. */
	if (f->nr_points < 2)
		return;
	for (size_t i = f->nr_before; i < f->nr_tries; i++)
		if (f->tries[i]->result.outcome == FIT_UNKNOWN &&
		    fitsearch_is_moot(&f->search, f->tries[i]->index))
			f->tries[i]->is_moot = true;
}

static void has_ended(struct fit_try *t, void *context)
{
	struct max_fit *f = context;

	if (t->is_moot || t->result.outcome == FIT_UNKNOWN)
		return;
	tell(f, t);
	if (!fitresult_is_verdict(&t->result))
		give_up(f, t);
	else if (!f->nr_values)
		learn(f, t);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Between the ends by ratio, not by difference: where little is known, 22 is as far from 1 as from 512. */
static int64_t middle_of(const struct max_fit *f)
{
	double value = sqrt((double)f->first * (double)f->opts.max);

	return (int64_t)((value - (double)f->first) / (double)f->opts.multiple_of);
}

static const struct fit_try *try_at(const struct max_fit *f, int64_t index)
{
	for (size_t i = f->nr_before; i < f->nr_tries; i++)
		if (f->tries[i]->index == index && fitresult_is_verdict(&f->tries[i]->result))
			return f->tries[i];
	return NULL;
}

/* Another GPU's answer is a better place to begin than any other. */
static int64_t begin_at(const struct max_fit *f, unsigned gpu)
{
	return gpu && f->answer[gpu - 1].best ? f->answer[gpu - 1].best->index : middle_of(f);
}

static int search(struct max_fit *f, unsigned gpu)
{
	int64_t next[FITSEARCH_MAX_ROOM];
	int status = 0;

	fitsearch_init(&f->search, f->nr_candidates, begin_at(f, gpu));
	f->nr_before = f->nr_tries;
	while (!status && !f->trouble && !fitsearch_is_done(&f->search)) {
		struct fit_try **round = &f->tries[f->nr_tries];
		unsigned nr = fitsearch_next(&f->search, f->point, f->nr_points, f->jobs, next);

		for (unsigned i = 0; i < nr; i++)
			if (add_try(f, gpu, f->first + (uint64_t)(next[i] * f->opts.multiple_of), next[i]))
				return CMD_TROUBLE;
		status = fitcrew_run(round, nr, f->jobs, &f->plan, has_ended, f, &f->signal);
	}
	f->answer[gpu] = (struct fit_answer){ try_at(f, f->search.fits), try_at(f, f->search.fails) };
	return status;
}

static int search_all(struct max_fit *f)
{
	int status = 0;

	for (unsigned gpu = 0; gpu < (f->plan.nr_gpus ? f->plan.nr_gpus : 1) && !status && !f->trouble; gpu++)
		status = search(f, gpu);
	return status;
}

/* --values: all of them, on all GPUs. */
static int try_all(struct max_fit *f)
{
	for (unsigned gpu = 0; gpu < (f->plan.nr_gpus ? f->plan.nr_gpus : 1); gpu++)
		for (size_t i = 0; i < f->nr_values; i++)
			if (add_try(f, gpu, f->values[i], (int64_t)i))
				return CMD_TROUBLE;
	return fitcrew_run(f->tries, f->nr_tries, f->jobs, &f->plan, has_ended, f, &f->signal);
}

/* ---- the result ------------------------------------------------------------------------------ */

static int fail(const struct max_fit *f, struct emit *e)
{
	const struct fit_try *t = f->trouble;
	char text[256];

	if (t->result.outcome == FIT_IDLE)
		return emit_fail(e, "with %" PRIu64 " '%s' used no GPU memory: there is nothing to measure",
				 t->value, f->plan.program[0]);
	fittry_show_output(t);
	return emit_fail(e, "with %" PRIu64 " '%s' %s, and not for want of GPU memory: nothing can be told",
			 t->value, f->plan.program[0], print_fit_outcome(text, sizeof(text), &t->result));
}

static int print_result(const struct max_fit *f)
{
	struct emit *e = emit_open(stdout, &f->opts.emit, "vramtrace/max-fit/1");
	struct fit_page page = { .plan = &f->plan,
				 .tries = f->tries,
				 .nr_tries = f->nr_tries,
				 .answer = f->nr_values ? NULL : f->answer,
				 .verbose = f->opts.verbose,
				 .min = (uint64_t)f->opts.min,
				 .max = (uint64_t)f->opts.max,
				 .multiple_of = (uint64_t)f->opts.multiple_of };
	bool none_fits = false;
	int ret;

	if (f->trouble)
		return fail(f, e);
	print_fit(e, &page);
	ret = emit_close(e);
	for (unsigned i = 0; !f->nr_values && i < (f->plan.nr_gpus ? f->plan.nr_gpus : 1); i++)
		none_fits |= !f->answer[i].best;
	return ret ? ret : none_fits ? CMD_FINDING : CMD_FINE;
}

static int run(struct max_fit *f)
{
	int ret = prepare(f);

	if (!ret)
		ret = preload_own_program(f->plan.self) ? CMD_TROUBLE : make_folder(f);
	if (ret)
		return ret;
	ret = f->nr_values ? try_all(f) : search_all(f);
	if (!ret)
		ret = print_result(f);
	if (!f->opts.output)
		scratch_remove(f->plan.folder);
	return ret;
}

int cmd_max_fit(int argc, const char **argv)
{
	struct max_fit *f = heap_alloc(1, sizeof(*f));
	enum opt_result parsed;
	struct launch_end end;
	int ret;

	f->opts = (struct max_fit_opts){ .min = 1, .multiple_of = 1, .steps = FITTRY_STEADY };
	parsed = opt_parse(&max_fit_help, &argc, argv, &f->opts);
	f->plan.program = argv + 1;
	ret = parsed != OPT_OK ? opt_status(parsed) : run(f);
	end = (struct launch_end){ .signal = f->signal };
	for (size_t i = 0; i < f->nr_tries; i++)
		free(f->tries[i]);
	free(f->gpus);
	free(f);
	if (end.signal)
		launch_end_as(&end);
	return ret;
}
