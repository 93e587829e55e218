/* SPDX-License-Identifier: MIT */
/* vramtrace names: have a program that runs looked at for the names of its tensors. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/launch/askcensus.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"
#include "tracefmt/tracefmt.h"

struct names_opts {
	struct emit_opts emit;
};

static const struct opt names_optv[] = {
	EMIT_JSON_OPTIONS(struct names_opts, emit),
	OPT_END,
};

static const struct opt_help names_help = {
	.command = "names",
	.purpose = "Look by which names a recorded program that runs holds its tensors now. It stands still for some 20 ms.",
	.usage = "PID [options]",
	.example = "vramtrace names 4711 && vramtrace peak --by name run.vtr",
	.options = names_optv,
	.operands = opt_no_paths,
};

static int cannot_find(long pid, int err)
{
	if (err == ENOENT)
		return message_error("no thread of process '%ld' writes a recording; start it with 'vramtrace run'", pid);
	return message_error("cannot look at process '%ld': %s", pid, strerror(err));
}

static int cannot_ask(const char *trace, enum askcensus_end end)
{
	switch (end) {
	case ASKCENSUS_CANNOT_ASK:
		return message_error("cannot ask beside '%s': %s", trace, strerror(errno));
	case ASKCENSUS_NO_ANSWER:
		return message_error("the recorder of '%s' does not answer: it is of an older version, or stands still", trace);
	default:
		return message_error("the recorder of '%s' could not look; 'vramtrace info' says at 'names' why", trace);
	}
}

/* The folder of a trace, which is its recording. */
static void folder_of(char out[PATH_MAX], const char *trace)
{
	snprintf(out, PATH_MAX, "%s", trace);
	*strrchr(out, '/') = 0;
}

static int show(const struct emit_opts *opts, const char *trace, const char *path)
{
	char folder[PATH_MAX];
	struct tfmt_census *c;
	const struct tfmt_census_facts *f;
	struct emit *e;

	if (tfmt_census_open(&c, path))
		return message_error("cannot read '%s'", path);
	f = tfmt_census_facts(c);
	folder_of(folder, trace);
	e = emit_open(stdout, opts, "vramtrace/names/1");
	emit_string(e, "recording", NULL, folder);
	emit_string(e, "census", NULL, path);
	emit_uint(e, "objects", NULL, f->nr_objects);
	emit_uint(e, "tensors", NULL, f->nr_tensors);
	emit_text(e, "%" PRIu64 " tensors by name, of %" PRIu64 " objects that were looked at", f->nr_tensors, f->nr_objects);
	emit_text(e, "next: vramtrace peak --by name %s", folder);
	tfmt_census_close(c);
	return emit_close(e) ? CMD_TROUBLE : CMD_FINE;
}

int cmd_names(int argc, const char **argv)
{
	struct names_opts o = { 0 };
	enum opt_result parsed = opt_parse(&names_help, &argc, argv, &o);
	char trace[PATH_MAX], census[PATH_MAX], *end;
	enum askcensus_end asked;
	long pid;
	int err;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&names_help, "it takes the number of one process");
	errno = 0;
	pid = strtol(argv[1], &end, 10);
	if (errno || end == argv[1] || *end || pid <= 0)
		return opt_wrong(&names_help, "'%s' is no number of a process", argv[1]);
	err = askcensus_find(trace, pid);
	if (err)
		return cannot_find(pid, err);
	asked = askcensus(census, trace);
	return asked == ASKCENSUS_DONE ? show(&o.emit, trace, census) : cannot_ask(trace, asked);
}
