/* SPDX-License-Identifier: MIT */
/* vramtrace check: does a program keep within its limits, or near its baseline? */
#include <inttypes.h>
#include <stdio.h>

#include "analyzer/checkpages/limit_options.h"
#include "analyzer/cmds/judge.h"
#include "analyzer/command.h"
#include "analyzer/gate/limits.h"
#include "analyzer/ui/options.h"

struct check_opts {
	struct limit_opts limits;
	int format; /* enum check_format */
	int64_t top;
	struct emit_opts emit;
};

static const struct opt check_optv[] = {
	LIMIT_OPTIONS(struct check_opts, limits),
	OPT_FLAG(0, "force", struct check_opts, limits.force, "compare with a baseline of another GPU or version"),
	OPT_ENUM('f', "format", struct check_opts, format, check_formats, "default text"),
	OPT_INT('n', "top", struct check_opts, top, "N", "the N stacks that grew most (default 5)"),
	EMIT_JSON_OPTIONS(struct check_opts, emit),
	OPT_END
};

static const struct opt_help check_help = {
	.command = "check",
	.purpose = "Say whether a recording keeps within limits (exit 0) or breaks one (1).",
	.usage = "[options] RECORDING",
	.example = "vramtrace check --max-peak 20GiB --no-oom train.vtr\n"
		   "vramtrace check --baseline memory-baseline.toml --tolerance 2% train.vtr\n"
		   "vramtrace check --format github train.vtr",
	.options = check_optv,
};

int cmd_check(int argc, const char **argv)
{
	struct check_opts o = { .top = BLAMED };
	enum opt_result parsed = opt_parse(&check_help, &argc, argv, &o);
	struct limits limits = LIMITS_INIT;
	struct judge_opts judge;
	int ret;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&check_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	if (o.top < 0 || o.top > UINT32_MAX)
		return opt_wrong(&check_help, "'--top' cannot be %" PRId64, o.top);
	judge = (struct judge_opts){ .format = o.emit.json ? FORMAT_JSON : (enum check_format)o.format,
				     .emit = o.emit,
				     .top = (uint32_t)o.top };
	ret = limits_take(&limits, &o.limits);
	if (!ret)
		ret = judge_recording(argv[1], &limits, &judge, stdout);
	limits_release(&limits);
	return ret;
}
