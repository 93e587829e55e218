/* SPDX-License-Identifier: MIT */
/* csv, ndjson: events and series while the recording is read, blocks of a moment after it. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/command.h"
#include "analyzer/base/heap.h"
#include "analyzer/export/formats.h"
#include "analyzer/export/rowfile.h"
#include "analyzer/export/sites.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/recording/eventname.h"
#include "analyzer/stacks/element.h"

static const char *const event_columns[] = {
	"host",   "pid",     "rank",  "ordinal", "time_ns",       "kind",         "phase",
	"device", "address", "size",  "aux",     "alloc_ordinal", "stream",       "tid",
	"call",   "shape",   "range", "site",    "python_stack",  "native_stack", NULL
};
static const char *const block_columns[] = { "host",         "pid",     "rank",  "device", "address",
					     "size",         "ordinal", "phase", "step",   "category",
					     "module",       "name",    "shape", "site",   "python_stack",
					     "native_stack", NULL };
static const char *const series_columns[] = {
	"host",           "pid",          "rank",       "device", "time_ns", "allocated_bytes",
	"reserved_bytes", "driver_bytes", "used_bytes", NULL
};
static const char *const *const columns[] = {
	[EXPORT_EVENTS] = event_columns, [EXPORT_BLOCKS] = block_columns, [EXPORT_SERIES] = series_columns
};

/* A device's totals, as its latest row has them. */
struct totals {
	uint64_t allocated, reserved, driver, used;
};

struct rows {
	struct rowfile file;
	struct sites sites;
	const struct replay_process *process; /* of `last` */
	struct totals last[TFMT_NR_DEVICES];
};

static void rows_begin(struct export *x, bool is_json)
{
	struct rows *r = heap_alloc(1, sizeof(*r));

	r->file = (struct rowfile){ .out = x->out, .is_json = is_json, .column = columns[x->what] };
	rowfile_begin(&r->file);
	x->state = r;
}

void csv_begin(struct export *x)
{
	rows_begin(x, false);
}

void ndjson_begin(struct export *x)
{
	rows_begin(x, true);
}

/* ---- what rows have in common ----------------------------------------------------------------- */

static void write_known(struct rowfile *f, bool is_known, uint64_t value)
{
	if (is_known)
		rowfile_uint(f, value);
	else
		rowfile_none(f);
}

static void write_process(struct rowfile *f, const struct replay_process *p, int64_t rank)
{
	rowfile_text(f, p->header->host);
	rowfile_uint(f, p->header->pid);
	write_known(f, rank >= 0, (uint64_t)rank);
}

static void write_shape(struct rowfile *f, const struct tfmt_reader *reader, uint32_t id)
{
	char text[SHAPE_TEXT_MAX];
	struct tfmt_shape shape;

	rowfile_text(f, id && tfmt_reader_shape(reader, id, &shape) ? shape_text(text, &shape) : NULL);
}

static void write_stack(struct rows *r, const struct export *x, const struct replay_process *p,
			uint32_t python, uint32_t native)
{
	rowfile_text(&r->file, sites_find(&r->sites, x->replay, export_process(x, p), python, native));
	rowfile_uint(&r->file, python);
	rowfile_uint(&r->file, native);
}

/* ---- events ------------------------------------------------------------------------------------ */

static void write_range(struct rowfile *f, const struct replay_process *p, const struct tfmt_event *ev)
{
	struct range range = { (uint32_t)ev->address, (uint32_t)ev->size };
	char text[512];

	rowfile_text(f, event_has_text(ev->kind) ? range_label(text, sizeof(text), p->reader, range) : NULL);
}

static void event_row(struct rows *r, struct export *x, const struct replay_process *p,
		      const struct tfmt_event *ev, uint64_t time_ns)
{
	const char *call = tfmt_reader_function(p->reader, ev->function);
	struct tfmt_thread thread;

	tfmt_reader_thread(p->reader, ev->thread, &thread);
	write_process(&r->file, p, export_rank(x, p));
	rowfile_uint(&r->file, ev->ordinal);
	rowfile_uint(&r->file, time_ns);
	rowfile_text(&r->file, event_kind_name(ev->kind));
	rowfile_text(&r->file, phase_names[p->phase]);
	write_known(&r->file, ev->device != TFMT_DEVICE_NONE, ev->device);
	rowfile_uint(&r->file, ev->address);
	rowfile_uint(&r->file, ev->size);
	write_known(&r->file, event_aux_name(ev->kind), ev->aux);
	write_known(&r->file, ev->alloc_ordinal != TFMT_NO_ORDINAL, ev->alloc_ordinal);
	rowfile_uint(&r->file, ev->stream);
	rowfile_uint(&r->file, thread.tid);
	rowfile_text(&r->file, *call ? call : NULL);
	write_shape(&r->file, p->reader, ev->shape);
	write_range(&r->file, p, ev);
	write_stack(r, x, p, ev->python_stack, ev->native_stack);
	rowfile_end(&r->file);
}

/* ---- series ------------------------------------------------------------------------------------ */

static void series_row(struct rows *r, struct export *x, const struct replay_process *p, uint8_t device,
		       uint64_t time_ns)
{
	const struct device_books *b = books_device(p->books, device);
	const struct residual_figures *residual = books_residual(p->books, device);
	struct totals now = { b->allocated_bytes, b->reserved_bytes, b->driver_bytes,
			      residual->has_last ? residual->last.used : 0 };

	if (r->process != p)
		memset(r->last, 0, sizeof(r->last));
	r->process = p;
	if (!memcmp(&now, &r->last[device], sizeof(now)))
		return;
	r->last[device] = now;
	write_process(&r->file, p, export_rank(x, p));
	rowfile_uint(&r->file, device);
	rowfile_uint(&r->file, time_ns);
	rowfile_uint(&r->file, now.allocated);
	rowfile_uint(&r->file, now.reserved);
	rowfile_uint(&r->file, now.driver);
	write_known(&r->file, residual->has_last, now.used);
	rowfile_end(&r->file);
}

void rows_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		  uint64_t time_ns)
{
	struct export *x = ctx;
	struct rows *r = x->state;

	if (!export_wants_event(x, process, ev))
		return;
	if (x->what == EXPORT_EVENTS)
		event_row(r, x, process, ev, time_ns);
	else if (x->what == EXPORT_SERIES && ev->device < TFMT_NR_DEVICES)
		series_row(r, x, process, ev->device, time_ns);
}

/* ---- blocks ------------------------------------------------------------------------------------ */

static void block_row(struct rows *r, const struct export *x, const struct replay_process *p,
		      const struct category_block *b, enum lives_moment moment)
{
	const struct group *g = books_group(p->books, b->life.group);
	char module[1024];
	struct named named;

	write_process(&r->file, p, p->rank);
	rowfile_uint(&r->file, b->life.device);
	rowfile_uint(&r->file, b->life.address);
	rowfile_uint(&r->file, b->life.size);
	rowfile_uint(&r->file, b->life.birth.ordinal);
	rowfile_text(&r->file, phase_names[b->life.birth.phase]);
	write_known(&r->file, b->step, b->step);
	rowfile_text(&r->file, category_names[b->category]);
	rowfile_text(&r->file,
		     b->module ? modulepaths_text(p->modulepaths, b->module, 0, module, sizeof(module))
			       : NULL);
	rowfile_text(&r->file, namedblocks_name(&named, p, &b->life, moment) ? named.name.text : NULL);
	write_shape(&r->file, p->reader, g->shape);
	write_stack(r, x, p, g->python_stack, g->native_stack);
	rowfile_end(&r->file);
}

static void device_blocks(struct rows *r, const struct export *x, const struct replay_device *d)
{
	enum lives_moment moment = categories_moment(d->process, d->ordinal, export_mark(d, x->at));
	struct categories c;

	if (!d->has_tensors || moment == LIVES_NONE)
		return;
	categories_find(&c, d->process, d->ordinal, moment, 0);
	for (size_t i = 0; i < c.nr_blocks; i++)
		block_row(r, x, d->process, &c.block[i], moment);
	categories_release(&c);
}

int rows_finish(struct export *x)
{
	struct rows *r = x->state;

	for (size_t i = 0; x->what == EXPORT_BLOCKS && i < x->replay->nr_devices; i++)
		if (export_wants_device(x, &x->replay->device[i]))
			device_blocks(r, x, &x->replay->device[i]);
	sites_release(&r->sites);
	free(r);
	return CMD_FINE;
}
