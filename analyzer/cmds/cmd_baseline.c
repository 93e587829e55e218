/* SPDX-License-Identifier: MIT */
/* vramtrace baseline: what a program takes, as a small file to check in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gate/baselinefile.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/subject.h"
#include "analyzer/recording/textset.h"
#include "analyzer/ui/options.h"

#define MIN_USUAL (UINT64_C(1) << 20)

struct baseline_opts {
	const char *output;
	uint64_t min_bytes;
	bool force;
};

static const struct opt baseline_optv[] = {
	OPT_STRING('o', "output", struct baseline_opts, output, "FILE", "write it there; default: to stdout"),
	OPT_BYTES('m', "min-size", struct baseline_opts, min_bytes, "SIZE", "leave out smaller stacks (1MiB)"),
	OPT_FLAG(0, "force", struct baseline_opts, force, "also of a program that failed, or of a part"),
	OPT_END
};

static const struct opt_help baseline_help = {
	.command = "baseline",
	.purpose = "Write what a program takes as a small text file, for 'check' and 'diff' to compare with.",
	.usage = "[options] RECORDING",
	.example = "vramtrace baseline -o memory-baseline.toml train.vtr",
	.options = baseline_optv,
};

/* A flight recorder has kept the end alone; NULL: it has all. */
static const char *part_kept(char *buf, size_t size, const struct replay *m)
{
	char time[HUMAN_MAX];

	if (print_kept_from(m) < 0)
		return NULL;
	snprintf(buf, size, "it keeps the last %s only, and not who held memory before; record it without --keep",
		 human_ns(time, m->duration_ns - (uint64_t)print_kept_from(m)));
	return buf;
}

/* The file is whole or as it was: written beside it, then put in its place. */
static int write_file(const struct footprint *f, const char *path)
{
	char *part = textset_format("%s.new", path);
	FILE *out = fopen(part, "we");
	bool failed = true;
	int err;

	if (out) {
		baselinefile_write(f, out);
		failed = ferror(out);
		failed |= fclose(out) != 0;
	}
	if (!failed)
		failed = rename(part, path) != 0;
	err = errno;
	if (failed && out)
		remove(part);
	free(part);
	return failed ? message_error("cannot write '%s': %s", path, strerror(err)) : CMD_FINE;
}

int cmd_baseline(int argc, const char **argv)
{
	struct baseline_opts o = { .min_bytes = MIN_USUAL };
	enum opt_result parsed = opt_parse(&baseline_help, &argc, argv, &o);
	struct subject s = SUBJECT_INIT;
	const char *why = NULL;
	char text[256];
	int ret;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&baseline_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	ret = subject_load(&s, argv[1], false, false);
	if (!ret && !subject_has_memory(&s))
		ret = message_error("cannot make a baseline of '%s': no GPU memory was allocated", argv[1]);
	if (!ret && !o.force) {
		why = subject_obstacle(text, sizeof(text), &s);
		why = why ? why : subject_loss(text, sizeof(text), &s);
		why = why ? why : part_kept(text, sizeof(text), &s.replay);
	}
	if (why)
		ret = message_error("cannot make a baseline of '%s': %s; --force makes one all the same", argv[1], why);
	s.footprint.min_bytes = o.min_bytes;
	if (!ret && o.output)
		ret = write_file(&s.footprint, o.output);
	else if (!ret)
		baselinefile_write(&s.footprint, stdout);
	subject_release(&s);
	return ret;
}
