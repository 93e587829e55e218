/* SPDX-License-Identifier: MIT */
/* vramtrace timeline: memory over time, as a plot or as numbers. */
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/base/term.h"
#include "analyzer/command.h"
#include "analyzer/holders/timeline.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"
#include "analyzer/ui/plot.h"

#define PLOT_ROWS 14
#define POINTS_DEFAULT 512

struct timeline_opts {
	int64_t points;
	struct emit_opts emit;
};

static const struct opt timeline_optv[] = {
	OPT_INT(0, "points", struct timeline_opts, points, "N", "points per device in JSON and CSV (512)"),
	EMIT_OPTIONS(struct timeline_opts, emit),
	OPT_END
};

static const struct opt_help timeline_help = {
	.command = "timeline",
	.purpose = "Show memory over time, one plot per device.",
	.usage = "[options] RECORDING",
	.example = "vramtrace timeline train.vtr\nvramtrace timeline --csv train.vtr > memory.csv",
	.options = timeline_optv,
};

static const struct emit_column columns[] = {
	{ "time_ns", NULL, EMIT_RIGHT, false },	       { "host", NULL, EMIT_LEFT, false },
	{ "pid", NULL, EMIT_RIGHT, false },	       { "device", NULL, EMIT_RIGHT, false },
	{ "allocated_bytes", NULL, EMIT_RIGHT, false }, { "reserved_bytes", NULL, EMIT_RIGHT, false },
	{ "driver_bytes", NULL, EMIT_RIGHT, false },    { NULL, NULL, EMIT_LEFT, false },
};

/* Of the time that a flight recorder has dropped nothing is known. */
static void print_value(struct emit *e, const char *key, bool is_kept, uint64_t bytes)
{
	if (is_kept)
		emit_uint(e, key, NULL, bytes);
	else
		emit_null(e, key, NULL);
}

static void print_points(struct emit *e, const struct replay *m, const struct replay_device *d,
			 const struct series_values *values, uint32_t nr)
{
	if (emit_is_text(e))
		return;
	for (uint32_t i = 0; i < nr; i++) {
		/* A point is the maximum up to the next. */
		bool is_kept = !d->process->is_kept || (double)m->duration_ns * (i + 1) / nr > (double)d->process->kept_ns;

		emit_row_begin(e);
		emit_uint(e, "time_ns", NULL, (uint64_t)((double)m->duration_ns * i / nr));
		if (emit_is_csv(e)) {
			emit_string(e, "host", NULL, d->process->header->host);
			emit_uint(e, "pid", NULL, d->process->header->pid);
			emit_uint(e, "device", NULL, d->ordinal);
		}
		print_value(e, "allocated_bytes", is_kept, values[i].value[TIMELINE_ALLOCATED]);
		print_value(e, "reserved_bytes", is_kept, values[i].value[TIMELINE_RESERVED]);
		print_value(e, "driver_bytes", is_kept, values[i].value[TIMELINE_DRIVER]);
		emit_row_end(e);
	}
}

static void print_legend(struct emit *e, const struct replay_device *d, bool utf8)
{
	const struct device_books *b = d->books;
	char allocated[HUMAN_MAX], reserved[HUMAN_MAX], capacity[HUMAN_MAX];
	const char *at_least = print_at_least(d->process);
	const char *of = d->capacity_bytes ? ", capacity " : "";

	human_bytes(capacity, d->capacity_bytes);
	if (d->has_tensors)
		emit_text(e, "%s allocated, peak %s%s   %s reserved, peak %s%s%s%s", utf8 ? "█" : "#",
			  at_least, human_bytes(allocated, b->allocated_peak_bytes), utf8 ? "░" : ".",
			  at_least, human_bytes(reserved, b->reserved_peak_bytes), of, *of ? capacity : "");
	else
		emit_text(e, "%s taken from the driver, peak %s%s%s%s", utf8 ? "█" : "#", at_least,
			  human_bytes(allocated, b->driver_peak_bytes), of, *of ? capacity : "");
}

static void print_plot(struct emit *e, const struct replay *m, const struct replay_device *d,
		       const struct series_values *values, uint32_t nr)
{
	uint64_t *bytes = heap_alloc(2 * (size_t)nr, sizeof(*bytes));
	struct plot plot = { .solid = bytes,
			    .shaded = bytes + nr,
			    .columns = nr,
			    .rows = PLOT_ROWS,
			    .top_bytes = 1,
			    .end_ns = m->duration_ns,
			    .utf8 = term_has_utf8(),
			    .colored = emit_is_colored(e) };
	char title[256];

	for (uint32_t i = 0; i < nr; i++) {
		bytes[i] = d->has_tensors ? values[i].value[TIMELINE_ALLOCATED] : values[i].value[TIMELINE_DRIVER];
		bytes[nr + i] = d->has_tensors ? values[i].value[TIMELINE_RESERVED] : values[i].value[TIMELINE_DRIVER];
		if (bytes[nr + i] > plot.top_bytes)
			plot.top_bytes = bytes[nr + i];
	}
	emit_heading(e, "%s", print_device_title(title, sizeof(title), m, d));
	print_legend(e, d, plot.utf8);
	emit_blank(e);
	plot_print(stdout, &plot);
	emit_blank(e);
	free(bytes);
}

static void print_device(struct emit *e, const struct replay *m, const struct replay_device *d,
			 const struct series *t, uint32_t nr)
{
	const struct series_track *track = series_find(t, d->process->books, d->ordinal);
	struct series_values *values = heap_alloc(nr, sizeof(*values));

	if (track)
		series_resample(t, track, m->duration_ns, values, nr);
	emit_object_begin(e, NULL, NULL);
	print_device_identity(e, d);
	if (emit_is_text(e))
		print_plot(e, m, d, values, nr);
	if (emit_is_json(e))
		emit_table_begin(e, "points", columns);
	print_points(e, m, d, values, nr);
	if (emit_is_json(e))
		emit_table_end(e);
	emit_object_end(e);
	free(values);
}

static int timeline_print(const struct replay *m, const struct series *t, const struct timeline_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/timeline/1");
	int width = term_columns(stdout) - PLOT_MARGIN;
	uint32_t nr = emit_is_text(e) ? (uint32_t)(width < 10 ? 10 : width) : (uint32_t)o->points;

	print_recording(e, m);
	emit_array_begin(e, "devices", NULL);
	if (emit_is_csv(e))
		emit_table_begin(e, "points", columns);
	for (size_t i = 0; i < m->nr_devices; i++)
		print_device(e, m, &m->device[i], t, nr);
	if (emit_is_csv(e))
		emit_table_end(e);
	emit_array_end(e);
	if (!m->nr_devices)
		emit_text(e, "No GPU memory was allocated in this recording.");
	return emit_close(e);
}

int cmd_timeline(int argc, const char **argv)
{
	struct timeline_opts o = { .points = POINTS_DEFAULT };
	struct series t;
	struct replay_options load = { .observe = timeline_observe, .ctx = &t };
	struct replay m = REPLAY_INIT;
	enum opt_result parsed = opt_parse(&timeline_help, &argc, argv, &o);
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&timeline_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	if (o.points < 1 || o.points > SERIES_STEPS)
		return opt_wrong(&timeline_help, "--points takes 1 to %d", SERIES_STEPS);
	series_init(&t);
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, argv[1], &load);
	if (!ret) {
		damaged = print_caveats(&m);
		ret = timeline_print(&m, &t, &o);
	}
	series_release(&t);
	replay_release(&m);
	return ret == CMD_FINE ? damaged : ret;
}
