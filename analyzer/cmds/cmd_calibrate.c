/* SPDX-License-Identifier: MIT */
/* vramtrace calibrate: measure a real GPU for the simulated one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/calibrate/libraries.h"
#include "analyzer/calibrate/measure.h"
#include "analyzer/calibrate/questions.h"
#include "analyzer/command.h"
#include "analyzer/gpu/gpufile.h"
#include "analyzer/ui/options.h"

struct calibrate_opts {
	const char *output, *name, *questions, *venv;
	int64_t device;
	bool force;
};

static const struct opt calibrate_optv[] = {
	OPT_STRING('o', "output", struct calibrate_opts, output, "FILE", "write it to FILE, NAME.toml"),
	OPT_STRING(0, "name", struct calibrate_opts, name, "NAME", "call the GPU NAME (default: as FILE)"),
	OPT_INT(0, "device", struct calibrate_opts, device, "N", "measure GPU N (default 0)"),
	OPT_STRING(0, "questions", struct calibrate_opts, questions, "FILE",
		   "answer what 'run --questions' wrote"),
	OPT_STRING(0, "venv", struct calibrate_opts, venv, "DIR",
		   "Python environment with the libraries (default $VIRTUAL_ENV)"),
	OPT_FLAG(0, "force", struct calibrate_opts, force, "replace FILE"),
	OPT_END
};

static const struct opt_help calibrate_help = {
	.command = "calibrate",
	.purpose = "Measure a GPU, so that 'run --simulate FILE' can simulate it elsewhere.",
	.usage = "[options] -o FILE",
	.example = "vramtrace calibrate -o my-gpu.toml\n"
		   "vramtrace run --simulate my-gpu.toml -- python train.py",
	.options = calibrate_optv,
	.operands = opt_no_paths,
};

static const char header[] = "# A GPU for 'vramtrace run --simulate', measured by 'vramtrace calibrate'.\n"
			     "# Every number may be changed; sizes are in bytes. See vramtrace-calibrate(1).";

/* The file's name without its folder and ending. */
static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');

	return heap_need(strndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base)));
}

static int check(const struct calibrate_opts *o, const struct gpufile *g)
{
	if (!gpufile_name_is_usable(g->name))
		return message_error(
			"'%s' is no name for a GPU: letters, digits, '.', '_' and '-'; use --name", g->name);
	if (!o->force && !access(o->output, F_OK))
		return message_error("'%s' exists; replace it with --force", o->output);
	if (o->questions && access(o->questions, R_OK))
		return message_error("cannot open '%s': %s", o->questions, strerror(errno));
	return CMD_FINE;
}

static int measure(const struct calibrate_opts *o, struct gpufile *g, struct questions_result *answers)
{
	static struct libraries libraries;
	struct measured_gpu gpu;
	int status;

	libraries_find(&libraries, o->venv ? o->venv : getenv("VIRTUAL_ENV"));
	status = measure_open(&gpu, &libraries, o->device);
	if (!status)
		status = measure_context(&gpu, g);
	if (!status)
		status = measure_device(&gpu, g);
	if (!status)
		status = measure_code(&gpu, g);
	if (!status)
		status = measure_handles(&gpu, g);
	if (!status && !libraries.has_nccl)
		message_warn(
			"NCCL was not found, its buffers are not measured; name an environment with --venv");
	else if (!status)
		status = measure_nccl(&gpu, g);
	if (!status && o->questions)
		status = questions_answer(&libraries, o->questions, g, answers);
	return status;
}

static int write_file(const char *path, const struct gpufile *g)
{
	FILE *out = fopen(path, "we");
	bool failed;

	if (!out)
		return message_error("cannot write '%s': %s", path, strerror(errno));
	gpufile_write_toml(g, header, out);
	failed = ferror(out);
	if (fclose(out) || failed)
		return message_error("cannot write '%s': %s", path, strerror(errno));
	return CMD_FINE;
}

int cmd_calibrate(int argc, const char **argv)
{
	struct calibrate_opts o = { 0 };
	enum opt_result parsed = opt_parse(&calibrate_help, &argc, argv, &o);
	struct questions_result answers = { 0 };
	struct gpufile g = { 0 };
	int status;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc > 1)
		return opt_wrong(&calibrate_help, "unexpected argument '%s'", argv[1]);
	if (!o.output)
		return opt_wrong(&calibrate_help, "no file to write: '-o FILE' is needed");
	g.name = o.name ? heap_copy(o.name) : name_of(o.output);
	g.base = heap_copy("h100");
	status = check(&o, &g);
	if (!status)
		status = measure(&o, &g, &answers);
	if (!status)
		status = write_file(o.output, &g);
	if (!status)
		message_info("measured %s: '%s', %u communicator sizes, %u questions answered, %u not",
			     g.product, o.output, g.nr_nccl, answers.nr_answered, answers.nr_unanswered);
	gpufile_release(&g);
	return status;
}
