/* SPDX-License-Identifier: MIT */
/* vramtrace export: a recording in the format of another program. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/export/archive.h"
#include "analyzer/export/export.h"
#include "analyzer/export/outfile.h"
#include "analyzer/export/zstdstream.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/ui/options.h"

struct export_opts {
	const char *format, *output;
	int what, at;
	int64_t pid, rank, device;
	bool split, zstd, list;
};

#define NOT_GIVEN (-1)

static const char *const what_names[] = { "events", "blocks", "series", NULL }; /* enum export_what */
static const char *const at_names[] = { "peak", "end", "all", NULL };		/* enum export_at */

static const struct opt export_optv[] = {
	OPT_STRING('f', "format", struct export_opts, format, "FORMAT", "one of those that --list names"),
	OPT_STRING('o', "output", struct export_opts, output, "FILE", "write FILE, when it is whole (default: stdout)"),
	OPT_ENUM(0, "what", struct export_opts, what, what_names, "of csv and ndjson: what the rows are"),
	OPT_ENUM(0, "at", struct export_opts, at, at_names, "what was held at the peak, at the end, or allocated in all"),
	OPT_INT(0, "pid", struct export_opts, pid, "N", "of this process only"),
	OPT_INT(0, "rank", struct export_opts, rank, "N", "of this rank only"),
	OPT_INT(0, "device", struct export_opts, device, "N", "of GPU N only, as its process numbers it"),
	OPT_FLAG(0, "split", struct export_opts, split, "of formats by stack: a tar archive with a file for each process"),
	OPT_FLAG(0, "zstd", struct export_opts, zstd, "compress text formats, as FILE's ending .zst does"),
	OPT_FLAG(0, "list", struct export_opts, list, "list the formats"),
	OPT_END
};

static const struct opt_help export_help = {
	.command = "export",
	.purpose = "Write a recording in the format of another program.",
	.usage = "--format FORMAT [options] RECORDING",
	.example = "vramtrace export --list\n"
		   "vramtrace export -f speedscope -o train.speedscope.json train.vtr\n"
		   "vramtrace export -f folded --at all train.vtr | flamegraph.pl > train.svg\n"
		   "vramtrace export -f csv --what series -o memory.csv train.vtr\n"
		   "vramtrace export -f ndjson -o events.ndjson.zst train.vtr",
	.options = export_optv,
};

static int list_formats(void)
{
	for (const struct export_format *f = export_formats; f->name; f++)
		printf("%-12s %s\n", f->name, f->purpose);
	return CMD_FINE;
}

/* "csv, folded, ..." */
static char *format_names(void)
{
	char *names = heap_copy("");

	for (const struct export_format *f = export_formats; f->name; f++) {
		char *more;

		if (asprintf(&more, "%s%s%s", names, *names ? ", " : "", f->name) < 0)
			more = heap_need(NULL);
		free(names);
		names = more;
	}
	return names;
}

static int unknown_format(const char *name)
{
	char *names = format_names();
	int ret;

	if (name)
		ret = opt_wrong(&export_help, "there is no format '%s'; there are %s", name, names);
	else
		ret = opt_wrong(&export_help, "missing '--format'; there are %s", names);
	free(names);
	return ret;
}

static bool is_named_zst(const char *name)
{
	const char *dot = name ? strrchr(name, '.') : NULL;

	return dot && !strcmp(dot, ".zst");
}

/* Binary formats are compressed already, or are opened as they are. */
static int check_zstd(const struct export_opts *o, const struct export_format *f)
{
	bool is_text = !f->is_binary && !o->split;

	if (o->zstd && !is_text)
		return opt_wrong(&export_help, "'--zstd' does not go with '%s'", o->split ? "--split" : f->name);
	if (is_named_zst(o->output) && !is_text)
		return opt_wrong(&export_help, "'%s': '%s' is not compressed by zstd; give another ending", o->output,
				 o->split ? "--split" : f->name);
	return CMD_FINE;
}

/* Options that mean nothing to the format are refused: they would be taken for followed. */
static int check(const struct export_opts *o, const struct export_format *f)
{
	if (o->what != NOT_GIVEN && !f->takes_what)
		return opt_wrong(&export_help, "'--what' does not go with '%s'", f->name);
	if (o->at != NOT_GIVEN && (!f->takes_at || (f->takes_what && o->what != EXPORT_BLOCKS)))
		return opt_wrong(&export_help, "'--at' does not go with '%s'%s", f->name,
				 f->takes_what ? " of anything but blocks" : "");
	if (o->at == EXPORT_ALL && f->takes_what)
		return opt_wrong(&export_help, "'--at all' goes with formats that show stacks; for all blocks take events");
	if (o->split && !f->write)
		return opt_wrong(&export_help, "'--split' does not go with '%s'", f->name);
	if (check_zstd(o, f))
		return CMD_TROUBLE;
	if ((f->is_binary || o->split || o->zstd) && !o->output && isatty(STDOUT_FILENO))
		return message_error("'%s' is binary, and stdout is a terminal: name a file with '-o FILE'",
				     o->split ? "--split" : o->zstd ? "--zstd" : f->name);
	return CMD_FINE;
}

/* Is anything in the recording of what is asked for? */
static int check_there(const struct export *x)
{
	bool is_asked = x->pid >= 0 || x->rank >= 0;
	const struct replay *m = x->replay;

	for (size_t i = 0; i < m->nr_processes; i++)
		if (export_wants_process(x, &m->process[i]))
			is_asked = false;
	if (is_asked)
		return message_error("'%s' has no such process; 'vramtrace info' lists them", m->recording.path);
	if (x->device >= 0 && !export_nr_devices(x))
		return message_error("'%s' has no GPU %d of these processes; 'vramtrace info' lists them", m->recording.path,
				     (int)x->device);
	return CMD_FINE;
}

static int export_write(struct export *x, const struct export_format *f, bool split)
{
	int ret = CMD_FINE, finished = CMD_FINE;

	if (f->begin)
		f->begin(x);
	replay_advance(x->replay);
	if (f->write)
		ret = check_there(x);
	if (!ret && f->write)
		ret = split ? archive_write(x, f) : f->write(x);
	if (f->finish)
		finished = f->finish(x);
	if (!ret)
		ret = finished;
	return ret || f->write ? ret : check_there(x);
}

/* The same, compressed. What cannot be written, outfile_close() says. */
static int export_compressed(struct export *x, const struct export_format *f)
{
	FILE *to = x->out;
	int ret;

	x->out = zstdstream_open(to);
	ret = export_write(x, f, false);
	return zstdstream_close(x->out) && !ret && !ferror(to) ? message_error("cannot compress the result") : ret;
}

static int export_to_file(struct export *x, const struct export_format *f, const struct export_opts *o, const char *path)
{
	bool judges_blocks = !f->takes_what || x->what == EXPORT_BLOCKS;
	struct replay_options load = { .observe = f->observe,
				       .ctx = x,
				       .observe_past = f->needs_past,
				       .lives = f->needs_lives && judges_blocks,
				       .names = f->needs_names && judges_blocks,
				       .modules = f->needs_names && judges_blocks };
	struct outfile out;
	int ret = rules_load();

	if (!ret)
		ret = replay_open(x->replay, path, &load);
	if (!ret)
		ret = outfile_open(&out, o->output, f->needs_path);
	if (ret)
		return ret;
	x->out = out.stream;
	x->path = out.path;
	ret = o->zstd || is_named_zst(o->output) ? export_compressed(x, f) : export_write(x, f, o->split);
	return outfile_close(&out, !ret);
}

int cmd_export(int argc, const char **argv)
{
	struct export_opts o = { .what = NOT_GIVEN, .at = NOT_GIVEN, .pid = -1, .rank = -1, .device = -1 };
	struct replay m = REPLAY_INIT;
	struct export x = { .replay = &m };
	enum opt_result parsed = opt_parse(&export_help, &argc, argv, &o);
	const struct export_format *format;
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (o.list)
		return list_formats();
	format = o.format ? export_format_find(o.format) : NULL;
	if (!format)
		return unknown_format(o.format);
	if (argc != 2)
		return opt_wrong(&export_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'", argv[argc - 1]);
	if (check(&o, format))
		return CMD_TROUBLE;
	x.what = o.what == NOT_GIVEN ? EXPORT_EVENTS : (enum export_what)o.what;
	x.at = o.at == NOT_GIVEN ? EXPORT_PEAK : (enum export_at)o.at;
	x.pid = o.pid;
	x.rank = o.rank;
	x.device = o.device;
	ret = export_to_file(&x, format, &o, argv[1]);
	if (!ret)
		damaged = print_caveats(&m);
	replay_release(&m);
	return ret == CMD_FINE ? damaged : ret;
}
