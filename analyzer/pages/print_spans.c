/* SPDX-License-Identifier: MIT */
/* The peaks within spans of time: one row for each span, process and device. */
#include "analyzer/pages/print_spans.h"

#include "analyzer/pages/print_recording.h"

static const struct emit_column columns[] = {
	{ "peak_bytes", "peak", EMIT_RIGHT, false },
	{ "begin_bytes", "before", EMIT_RIGHT, false },
	{ "end_bytes", "after", EMIT_RIGHT, false },
	{ "pid", "pid", EMIT_RIGHT, false },
	{ "device", "GPU", EMIT_RIGHT, false },
	{ "name", "span", EMIT_LEFT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

static const struct replay_device *device_of(const struct replay *m, const struct stay *stay)
{
	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].process == stay->process && m->device[i].ordinal == stay->device)
			return &m->device[i];
	return NULL;
}

static void print_stay(struct emit *e, const struct spans *s, const struct stay *stay, const struct replay_device *d)
{
	const struct stay_figures *f = d->has_tensors ? &stay->tensor : &stay->driver;

	emit_row_begin(e);
	emit_bytes(e, "peak_bytes", NULL, f->peak_bytes);
	emit_bytes(e, "begin_bytes", NULL, f->begin_bytes);
	emit_bytes(e, "end_bytes", NULL, f->end_bytes);
	emit_uint(e, "peak_time_ns", NULL, f->peak_ns);
	emit_uint(e, "pid", NULL, stay->process->header->pid);
	emit_uint(e, "device", NULL, stay->device);
	emit_string(e, "ledger", NULL, d->has_tensors ? "tensor" : "driver");
	emit_uint(e, "span_line", NULL, s->span[stay->span].line);
	emit_string(e, "name", NULL, s->span[stay->span].name);
	emit_row_end(e);
}

int print_spans(const struct replay *m, const struct spans *s, const struct emit_opts *opts)
{
	struct emit *e = emit_open(stdout, opts, "vramtrace/spans/1");

	print_recording(e, m);
	emit_table_begin(e, "spans", columns);
	for (size_t i = 0; i < s->nr_stays; i++) {
		const struct replay_device *d = device_of(m, &s->stay[i]);

		if (d)
			print_stay(e, s, &s->stay[i], d);
	}
	emit_table_end(e);
	if (!s->nr_stays)
		emit_text(e, "No GPU memory was in use in these spans.");
	return emit_close(e);
}
