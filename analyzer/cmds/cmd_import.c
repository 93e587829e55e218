/* SPDX-License-Identifier: MIT */
/* vramtrace import: a recording of what another tool has recorded. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/imports/import.h"
#include "analyzer/recording/basename.h"
#include "analyzer/recording/textset.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

struct import_opts {
	const char *output;
	struct emit_opts emit;
};

static const struct opt import_optv[] = {
	OPT_STRING('o', "output", struct import_opts, output, "REC", "what the recording is called (FILE's name and .vtr)"),
	EMIT_JSON_OPTIONS(struct import_opts, emit),
	OPT_END
};

static const struct opt_help import_help = {
	.command = "import",
	.purpose = "Make a recording of a PyTorch memory snapshot, a log of RMM's or a trace of PyTorch's profiler.\n"
		   "Commands take such a file as it is, too: 'vramtrace oom snapshot.pickle'.",
	.usage = "[options] FILE",
	.example = "vramtrace import snapshot.pickle -o job.vtr\n"
		   "vramtrace report job.vtr",
	.options = import_optv,
};

/* The file's name without its folder and without .pickle or what else follows its last dot. */
static char *default_name(const char *path)
{
	const char *name = basename_of(path), *dot = strrchr(name, '.');

	return textset_format("%.*s.vtr", (int)(dot && dot != name ? dot - name : (ptrdiff_t)strlen(name)), name);
}

static void warn_unexplained(const char *path, uint64_t nr)
{
	if (nr)
		message_warn("'%s': %" PRIu64 " blocks or segments do not follow from its entries; they come or go where the "
			     "entries end, or would have to",
			     path, nr);
}

static int import_print(const struct import_opts *o, const char *path, const char *out, const struct import_result *result)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/import/1");

	emit_string(e, "path", NULL, path);
	emit_string(e, "output", NULL, out);
	emit_string(e, "kind", NULL, result->kind);
	emit_uint(e, "events", NULL, result->nr_events);
	emit_uint(e, "unexplained", NULL, result->nr_unexplained);
	emit_text(e, "%s: %" PRIu64 " events; 'vramtrace report %s' reads it", out, result->nr_events, out);
	return emit_close(e);
}

int cmd_import(int argc, const char **argv)
{
	struct import_opts o = { 0 };
	enum opt_result parsed = opt_parse(&import_help, &argc, argv, &o);
	struct import_result result;
	char why[2048], *out;
	int status;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&import_help, argc < 2 ? "no file to read" : "one file at a time");
	out = o.output ? textset_format("%s", o.output) : default_name(argv[1]);
	if (import_make(argv[1], out, &result, why, sizeof(why))) {
		status = emit_fail(emit_open(stdout, &o.emit, "vramtrace/import/1"), "%s", why);
	} else {
		warn_unexplained(argv[1], result.nr_unexplained);
		status = import_print(&o, argv[1], out, &result);
	}
	free(out);
	return status;
}
