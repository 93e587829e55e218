/* SPDX-License-Identifier: MIT */
/* vramtrace frag: cached but unusable: how much, when, and which blocks keep it so. */
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/pages/print_frag.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/ui/options.h"

#define POINTS_DEFAULT 512
#define TOP_USUAL INT64_MIN /* --top was not given */
#define TOP_TEXT 5

struct frag_opts {
	int64_t points, top;
	bool exit_code;
	struct emit_opts emit;
};

static const struct opt frag_optv[] = {
	OPT_INT('n', "top", struct frag_opts, top, "N", "the N places that keep most (text: 5)"),
	OPT_INT(0, "points", struct frag_opts, points, "N", "points per device in JSON and CSV (512)"),
	OPT_FLAG(0, "exit-code", struct frag_opts, exit_code, "exit with 1 when there is a finding"),
	EMIT_OPTIONS(struct frag_opts, emit),
	OPT_END
};

static const struct opt_help frag_help = {
	.command = "frag",
	.purpose = "Show what is cached but cannot be used, and which blocks keep it so.",
	.usage = "[options] RECORDING",
	.example = "vramtrace frag train.vtr\nvramtrace frag --csv train.vtr > cached.csv",
	.options = frag_optv,
};

static const struct emit_column point_columns[] = {
	{ "time_ns", NULL, EMIT_RIGHT, false },
	{ "host", NULL, EMIT_LEFT, false },
	{ "pid", NULL, EMIT_RIGHT, false },
	{ "device", NULL, EMIT_RIGHT, false },
	{ "reserved_bytes", NULL, EMIT_RIGHT, false },
	{ "allocated_bytes", NULL, EMIT_RIGHT, false },
	{ "cached_bytes", NULL, EMIT_RIGHT, false },
	{ "stuck_bytes", NULL, EMIT_RIGHT, false },
	{ "largest_free_bytes", NULL, EMIT_RIGHT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

struct frag_result {
	struct frag frag;
	struct frag_view *view; /* one per device of the replay */
	size_t nr_views;
	unsigned nr_findings;
};

static void result_find(struct frag_result *r, const struct replay *m, uint64_t top)
{
	frag_finish(&r->frag);
	r->view = heap_alloc(m->nr_devices, sizeof(*r->view));
	for (size_t i = 0; i < m->nr_devices; i++) {
		struct frag_view *v = &r->view[r->nr_views++];
		struct frag_device *d = frag_of(&r->frag, &m->device[i]);

		*v = (struct frag_view){ .m = m, .device = &m->device[i], .frag = &r->frag, .d = d, .top = top };
		for (int k = 0; k < NR_FRAG_MOMENTS && d; k++)
			blockers_find(&v->blockers[k], &d->moment[k].blocks, m, m->device[i].process);
		r->nr_findings += frag_view_findings(v);
	}
}

static void result_release(struct frag_result *r)
{
	for (size_t i = 0; i < r->nr_views; i++)
		for (int k = 0; k < NR_FRAG_MOMENTS; k++)
			blockers_release(&r->view[i].blockers[k]);
	free(r->view);
	frag_release(&r->frag);
}

static void print_points(struct emit *e, const struct frag_view *v, const struct series_values *values, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		emit_row_begin(e);
		emit_uint(e, "time_ns", NULL, (uint64_t)((double)v->m->duration_ns * i / nr));
		if (emit_is_csv(e)) {
			emit_string(e, "host", NULL, v->device->process->header->host);
			emit_uint(e, "pid", NULL, v->device->process->header->pid);
			emit_uint(e, "device", NULL, v->device->ordinal);
		}
		for (int k = 0; k < NR_FRAG_VALUES; k++)
			emit_uint(e, point_columns[4 + k].key, NULL, values[i].value[k]);
		emit_row_end(e);
	}
}

/* Of one device, in JSON and CSV. */
static void print_series(struct emit *e, const struct frag_view *v, uint32_t nr)
{
	const struct series_track *track = series_find(&v->frag->series, v->device->process->books, v->device->ordinal);
	struct series_values *values = heap_alloc(nr, sizeof(*values));

	if (track)
		series_resample(&v->frag->series, track, v->m->duration_ns, values, nr);
	if (emit_is_json(e))
		emit_table_begin(e, "points", point_columns);
	print_points(e, v, values, nr);
	if (emit_is_json(e))
		emit_table_end(e);
	free(values);
}

static void print_device(struct emit *e, const struct frag_view *v, uint32_t nr_points)
{
	if (emit_is_text(e)) {
		print_frag_text(e, v);
		return;
	}
	emit_object_begin(e, NULL, NULL);
	print_device_identity(e, v->device);
	if (emit_is_json(e))
		json_frag(e, v);
	print_series(e, v, nr_points);
	emit_object_end(e);
}

static int result_print(const struct frag_result *r, const struct replay *m, const struct frag_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/frag/1");

	print_recording(e, m);
	emit_array_begin(e, "devices", NULL);
	if (emit_is_csv(e))
		emit_table_begin(e, "points", point_columns);
	for (size_t i = 0; i < r->nr_views; i++) {
		if (i)
			emit_blank(e);
		print_device(e, &r->view[i], (uint32_t)o->points);
	}
	if (emit_is_csv(e))
		emit_table_end(e);
	emit_array_end(e);
	if (!r->nr_views)
		emit_text(e, "No GPU memory was allocated in this recording.");
	emit_array_begin(e, "findings", NULL);
	for (size_t i = 0; i < r->nr_views; i++)
		json_frag_findings(e, &r->view[i]);
	emit_array_end(e);
	return emit_close(e);
}

int cmd_frag(int argc, const char **argv)
{
	struct frag_opts o = { .points = POINTS_DEFAULT, .top = TOP_USUAL };
	struct frag_result r = { 0 };
	struct replay_options load = { .observe = frag_observe, .ctx = &r.frag, .observe_past = true,
				       .names = true };
	struct replay m = REPLAY_INIT;
	enum opt_result parsed = opt_parse(&frag_help, &argc, argv, &o);
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&frag_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	if (o.points < 1 || o.points > SERIES_STEPS)
		return opt_wrong(&frag_help, "--points takes 1 to %d", SERIES_STEPS);
	if (o.top < 0 && o.top != TOP_USUAL)
		return opt_wrong(&frag_help, "'--top' cannot be negative");
	if (o.top < 0)
		o.top = o.emit.json || o.emit.csv ? 0 : TOP_TEXT;
	frag_init(&r.frag);
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, argv[1], &load);
	if (!ret) {
		result_find(&r, &m, (uint64_t)o.top);
		damaged = print_caveats(&m);
		ret = result_print(&r, &m, &o);
	}
	if (!ret && o.exit_code && r.nr_findings)
		ret = CMD_FINDING;
	result_release(&r);
	replay_release(&m);
	return damaged ? damaged : ret;
}
