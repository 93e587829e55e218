/* SPDX-License-Identifier: MIT */
/*
 * vramtrace leaks: what grows from step to step, and apart from that what was live at the end of accounting, by the
 * stack that allocated it; --series: the growth of readings.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/holders/holders.h"
#include "analyzer/pages/leaks_series.h"
#include "analyzer/pages/print_holders.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_stepgrowth.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

#define TOP_USUAL INT64_MIN /* --top was not given */
#define CAPACITY_USUAL UINT64_MAX /* nor --capacity */
#define PAGE_WIDTH 80
#define LIVE_SHOWN 3        /* groups live at the end, on the first page */
#define FRAMES_SHOWN 2      /* frames of the program's own that are shown of each such group */

struct leaks_opts {
	uint64_t min_bytes;
	int64_t top;
	bool exit_code, verbose;
	bool is_first_page; /* no option: as much as a screen holds */
	struct emit_opts emit;
	uint64_t capacity_bytes;
	int64_t horizon;
	const char *warn_growth;
	/* With --series alone. */
	const char *series, *unit, *key;
	bool is_binary;
	uint64_t context_bytes;
};

static const struct opt leaks_optv[] = {
	OPT_BYTES('m', "min-size", struct leaks_opts, min_bytes, "SIZE", "hide groups smaller than SIZE"),
	OPT_INT('n', "top", struct leaks_opts, top, "N", "the N largest groups of each device (text: 3)"),
	OPT_FLAG(0, "exit-code", struct leaks_opts, exit_code, "exit with 1 when memory grows"),
	OPT_FLAG('v', "verbose", struct leaks_opts, verbose, "whole stacks, whole paths"),
	OPT_BYTES(0, "capacity", struct leaks_opts, capacity_bytes, "SIZE",
		  "of the GPU: when does it run out?"),
	OPT_INT(0, "horizon", struct leaks_opts, horizon, "STEPS",
		"growth matters if it runs out within these (100000)"),
	OPT_STRING(0, "warn-growth", struct leaks_opts, warn_growth, "5%/10steps",
		   "exit with 1 when it grows faster"),
	OPT_STRING(0, "series", struct leaks_opts, series, "FILE|-",
		   "read step,bytes or a log instead of a RECORDING"),
	OPT_BYTES(0, "context", struct leaks_opts, context_bytes, "SIZE",
		  "series: what of it the context takes"),
	OPT_STRING(0, "unit", struct leaks_opts, unit, "UNIT",
		   "series: of numbers without one: GiB, MB, ..."),
	OPT_FLAG(0, "binary", struct leaks_opts, is_binary, "series: GB is 2^30 bytes, not 10^9"),
	OPT_STRING(0, "key", struct leaks_opts, key, "NAME", "series: the word before the memory in a log"),
	EMIT_OPTIONS(struct leaks_opts, emit),
	OPT_END
};

static const struct opt_help leaks_help = {
	.command = "leaks",
	.purpose =
		"Say what grows from step to step and when memory runs out, and list what was live at the end.",
	.usage = "[options] RECORDING | --series FILE|-",
	.example = "vramtrace leaks train.vtr\n"
		   "vramtrace leaks --series train.log --capacity 24GiB",
	.options = leaks_optv,
};

/* One device's or one process's share of the result. */
struct survivors {
	struct holders_query query;
	struct holders holders;
};

/* What grows on a device, or of the host's memory. */
struct growing {
	struct replay_device device;
	struct stepgrowth growth;
};

struct leaks {
	struct survivors *part;
	size_t nr_parts;
	struct group_figures total;
	uint64_t nr_groups;
	struct growing *growing; /* the devices', in their order, then those of processes whose host memory grows */
	size_t nr_growing;
	struct stepgrowth_limits limits;
};

static void leaks_add(struct leaks *l, const struct replay *m, struct replay_process *p, uint32_t device,
		     enum holders_of of, enum holders_by by)
{
	struct survivors *s = &l->part[l->nr_parts];

	s->query = (struct holders_query){ p, device, of, by, MARK_END };
	holders_find(&s->holders, m, &s->query);
	l->nr_parts++;
	l->total.bytes += s->holders.total.bytes;
	l->total.blocks += s->holders.total.blocks;
	l->nr_groups += s->holders.nr_holders;
}

/*
 * Tensors where a framework's allocator holds the memory; what the driver gave, of device and host, where
 * none does.
 */
static void live_find(struct leaks *l, const struct replay *m, enum holders_by by)
{
	l->part = heap_alloc(m->nr_devices + m->nr_processes, sizeof(*l->part));
	for (size_t i = 0; i < m->nr_devices; i++)
		leaks_add(l, m, m->device[i].process, m->device[i].ordinal,
			  m->device[i].has_tensors ? HOLDERS_TENSORS : HOLDERS_DRIVER, by);
	for (size_t i = 0; i < m->nr_processes; i++)
		if (!m->process[i].torch)
			leaks_add(l, m, &m->process[i], 0, HOLDERS_HOST, by);
}

static void growing_find(struct leaks *l, const struct replay *m, struct replay_device device)
{
	struct growing *to = &l->growing[l->nr_growing++];

	to->device = device;
	stepgrowth_find(&to->growth, m, &to->device, &l->limits);
}

static void growth_find_all(struct leaks *l, const struct replay *m)
{
	l->growing = heap_alloc(m->nr_devices + m->nr_processes, sizeof(*l->growing));
	for (size_t i = 0; i < m->nr_devices; i++)
		growing_find(l, m, m->device[i]);
	for (size_t i = 0; i < m->nr_processes; i++) {
		growing_find(l, m, stepgrowth_host(&m->process[i]));
		if (!l->growing[l->nr_growing - 1].growth.nr_causes)
			stepgrowth_release(&l->growing[--l->nr_growing].growth);
	}
}

static bool leaks_have_finding(const struct leaks *l)
{
	bool any = false;

	for (size_t i = 0; i < l->nr_growing; i++)
		any |= l->growing[i].growth.nr_findings != 0;
	return any;
}

static bool leaks_are_warned(const struct leaks *l)
{
	bool any = false;

	for (size_t i = 0; i < l->nr_growing; i++)
		any |= l->growing[i].growth.is_warned;
	return any;
}

static void leaks_release(struct leaks *l)
{
	for (size_t i = 0; i < l->nr_parts; i++)
		holders_release(&l->part[i].holders);
	for (size_t i = 0; i < l->nr_growing; i++)
		stepgrowth_release(&l->growing[i].growth);
	free(l->part);
	free(l->growing);
}

static const struct replay_device *device_of(const struct replay *m, const struct holders_query *q)
{
	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].process == q->process && m->device[i].ordinal == q->device)
			return &m->device[i];
	return NULL;
}

/* Without the GPU's name: which one it is of several. */
static void narrow_title(char *buf, size_t size, const struct replay *m, const struct replay_device *d)
{
	int n = snprintf(buf, size, "GPU %" PRIu32, d->ordinal);

	if (m->nr_processes > 1 && d->process->rank >= 0)
		snprintf(buf + n, size - (size_t)n, ", rank %" PRId64, (int64_t)d->process->rank);
	else if (m->nr_processes > 1)
		snprintf(buf + n, size - (size_t)n, ", pid %" PRIu32, d->process->header->pid);
}

/* A line above the rows of a part. */
static void part_heading(struct emit *e, const struct replay *m, const struct survivors *s)
{
	const struct replay_device *d = s->query.of == HOLDERS_HOST ? NULL : device_of(m, &s->query);
	char size[HUMAN_MAX], count[HUMAN_MAX], text[128], title[256] = "pinned and managed host memory";
	int width = snprintf(text, sizeof(text), "%s%s live at the end in %s block%s: ",
			     d ? print_about_end(d, s->query.of == HOLDERS_TENSORS ? REPLAY_ALLOCATED : REPLAY_DRIVER)
			       : print_at_least(s->query.process),
			     human_bytes(size, s->holders.total.bytes), human_count(count, s->holders.total.blocks),
			     s->holders.total.blocks == 1 ? "" : "s");

	if (d)
		print_device_title(title, sizeof(title), m, d);
	if (d && (size_t)width + strlen(title) > PAGE_WIDTH)
		narrow_title(title, sizeof(title), m, d);
	emit_heading(e, "%s%s", text, title);
}

/* After a finding, and of several devices, what was live at the end takes one line a place, without stacks. */
static bool is_brief(const struct leaks *l, const struct leaks_opts *o)
{
	return (leaks_have_finding(l) || l->nr_growing > 1) && !o->verbose && !o->emit.json && !o->emit.csv;
}

/* Of how many devices, and the host, something was live at the end. */
static uint64_t nr_live_parts(const struct leaks *l)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < l->nr_parts; i++)
		nr += l->part[i].holders.nr_holders != 0;
	return nr;
}

static void leaks_print_text(struct emit *e, const struct replay *m, const struct leaks *l,
			     const struct leaks_opts *o)
{
	struct print_holders_options rows = { .top = (uint64_t)o->top,
					       .min_bytes = o->min_bytes,
					       .verbose = o->verbose,
					       .by_site = is_brief(l, o),
					       .frames = FRAMES_SHOWN };
	uint64_t nr_parts = nr_live_parts(l);
	char size[HUMAN_MAX];

	if (o->is_first_page && nr_parts > 1) /* they share the page */
		rows.top = rows.top > nr_parts ? rows.top / nr_parts : 1;

	for (size_t i = 0; i < l->nr_growing; i++)
		print_stepgrowth(e, m, &l->growing[i].device, &l->growing[i].growth, &l->limits);
	if (!l->total.blocks)
		emit_text(e, "Nothing was live at the end.");
	for (size_t i = 0; i < l->nr_parts; i++) {
		const struct survivors *s = &l->part[i];

		if (!s->holders.nr_holders)
			continue;
		part_heading(e, m, s);
		emit_blank(e);
		if (s->holders.holder[0].figures.bytes < o->min_bytes) {
			emit_text(e, "(no group of %s or more)", human_bytes(size, o->min_bytes));
			emit_blank(e);
			continue;
		}
		print_holders_begin(e);
		print_holders_rows(e, m, &s->query, &s->holders, &rows);
		print_holders_end(e);
		if (rows.top && s->holders.nr_holders > rows.top)
			emit_text(e, "(%" PRIu64 " more group%s: --top N)", s->holders.nr_holders - rows.top,
				  s->holders.nr_holders - rows.top == 1 ? "" : "s");
		emit_blank(e);
	}
}

static int leaks_print(const struct leaks *l, const struct replay *m, const struct leaks_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/leaks/2");
	struct print_holders_options rows = { .top = (uint64_t)o->top, .min_bytes = o->min_bytes, .verbose = o->verbose };

	print_recording(e, m);
	emit_object_begin(e, "totals", NULL);
	emit_uint(e, "bytes", NULL, l->total.bytes);
	emit_uint(e, "count", NULL, l->total.blocks);
	emit_uint(e, "groups", NULL, l->nr_groups);
	emit_object_end(e);
	if (emit_is_text(e)) {
		leaks_print_text(e, m, l, o);
	} else {
		print_holders_begin(e);
		for (size_t i = 0; i < l->nr_parts; i++)
			print_holders_rows(e, m, &l->part[i].query, &l->part[i].holders, &rows);
		print_holders_end(e);
	}
	emit_array_begin(e, "growth", NULL);
	for (size_t i = 0; i < l->nr_growing; i++)
		json_stepgrowth(e, m, &l->growing[i].device, &l->growing[i].growth, &l->limits);
	emit_array_end(e);
	emit_array_begin(e, "findings", NULL);
	for (size_t i = 0; i < l->nr_growing; i++)
		json_stepgrowth_findings(e, m, &l->growing[i].device, &l->growing[i].growth);
	emit_array_end(e);
	return emit_close(e);
}

/* What of the options is about growth; false: --warn-growth is none. */
static bool growth_limits_of(struct stepgrowth_limits *limits, const struct leaks_opts *o)
{
	struct growth_limits warn = { 0 };

	if (o->warn_growth && !growth_limits_parse_warning(&warn, o->warn_growth))
		return false;
	*limits = (struct stepgrowth_limits){ .capacity_bytes = o->capacity_bytes,
					      .horizon_steps = (double)o->horizon,
					      .warn_share = warn.warn_share,
					      .warn_bytes = warn.warn_bytes,
					      .warn_steps = warn.warn_steps };
	return true;
}

static int cmd_leaks_series(int argc, const char **argv, const struct leaks_opts *o)
{
	struct leaks_series_opts series = {
		.path = o->series,
		.unit = o->unit,
		.key = o->key,
		.is_binary = o->is_binary,
		.exit_code = o->exit_code,
		.limits = { .capacity_bytes = o->capacity_bytes,
			    .context_bytes = o->context_bytes,
			    .horizon_steps = (double)o->horizon },
		.emit = o->emit,
	};
	bool is_decimal;

	if (argc > 1)
		return opt_wrong(&leaks_help,
				 "'--series' takes the place of a RECORDING: unexpected argument '%s'",
				 argv[1]);
	if (o->emit.csv)
		return opt_wrong(&leaks_help, "'--csv' has no table to print of a series");
	if (o->unit && !(seriestext_unit(o->unit, strlen(o->unit), false, &is_decimal) > 0))
		return opt_wrong(&leaks_help, "'%s' is no unit for '--unit'", o->unit);
	if (o->warn_growth)
		growth_limits_parse_warning(&series.limits, o->warn_growth);
	if (o->context_bytes && o->context_bytes >= o->capacity_bytes)
		return opt_wrong(&leaks_help, "'--context' must be less than '--capacity'");
	return leaks_series(&series);
}

int cmd_leaks(int argc, const char **argv)
{
	struct leaks_opts o = { .top = TOP_USUAL, .horizon = STEPGROWTH_HORIZON, .capacity_bytes = CAPACITY_USUAL };
	struct replay m = REPLAY_INIT;
	struct leaks l = { 0 };
	struct replay_options load = { .lives = true };
	enum opt_result parsed = opt_parse(&leaks_help, &argc, argv, &o);
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (!o.capacity_bytes)
		return opt_wrong(&leaks_help, "'--capacity' must be more than 0");
	if (o.capacity_bytes == CAPACITY_USUAL)
		o.capacity_bytes = 0;
	if (!growth_limits_of(&l.limits, &o))
		return opt_wrong(&leaks_help, "'%s' is no growth such as 5%%/10steps or 100MiB/10steps for '--warn-growth'",
				 o.warn_growth);
	if (o.horizon < 1)
		return opt_wrong(&leaks_help, "'--horizon' must be at least 1");
	if (o.series)
		return cmd_leaks_series(argc, argv, &o);
	if (o.context_bytes || o.unit || o.is_binary || o.key)
		return opt_wrong(&leaks_help, "an option for '--series' without it");
	if (argc != 2)
		return opt_wrong(&leaks_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	if (o.top < 0 && o.top != TOP_USUAL)
		return opt_wrong(&leaks_help, "'--top' cannot be negative");
	o.is_first_page = o.top < 0 && !o.verbose;
	if (o.top < 0)
		o.top = o.emit.json || o.emit.csv ? 0 : o.verbose ? 10 : LIVE_SHOWN;
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, argv[1], &load);
	if (!ret) {
		growth_find_all(&l, &m);
		live_find(&l, &m, is_brief(&l, &o) ? HOLDERS_BY_SITE : HOLDERS_BY_STACK);
		damaged = print_caveats(&m);
		ret = leaks_print(&l, &m, &o);
	}
	if (!ret && (leaks_are_warned(&l) || (o.exit_code && leaks_have_finding(&l))))
		ret = CMD_FINDING;
	leaks_release(&l);
	replay_release(&m);
	return damaged ? damaged : ret;
}
