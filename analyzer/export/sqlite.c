/* SPDX-License-Identifier: MIT */
/* sqlite: a database of processes, devices, events, series, stacks, and the blocks of two moments (docs/export.md). */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/command.h"
#include "analyzer/export/dbfile.h"
#include "analyzer/export/formats.h"
#include "analyzer/export/segmenttrack.h"
#include "analyzer/export/sites.h"
#include "analyzer/export/stackframes.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/recording/eventname.h"
#include "analyzer/stacks/element.h"

static const char schema[] =
	"CREATE TABLE processes (process INTEGER PRIMARY KEY, host TEXT, pid INTEGER, rank INTEGER, local_rank INTEGER,"
	" program TEXT, torch TEXT, simulated TEXT, start_unix_ns INTEGER, start_ns INTEGER, last_ns INTEGER, ending TEXT,"
	" lost_events INTEGER, exact INTEGER);"
	"CREATE TABLE devices (process INTEGER, device INTEGER, name TEXT, uuid TEXT, capacity_bytes INTEGER,"
	" allocs INTEGER, frees INTEGER, ooms INTEGER, peak_bytes INTEGER, peak_time_ns INTEGER, live_at_end_bytes INTEGER,"
	" reserved_peak_bytes INTEGER, reserved_end_bytes INTEGER, driver_allocs INTEGER, driver_frees INTEGER,"
	" driver_peak_bytes INTEGER, driver_live_at_end_bytes INTEGER, PRIMARY KEY (process, device)) WITHOUT ROWID;"
	"CREATE TABLE events (process INTEGER, ordinal INTEGER, time_ns INTEGER, kind TEXT, phase TEXT, device INTEGER,"
	" address INTEGER, size INTEGER, aux INTEGER, alloc_ordinal INTEGER, stream INTEGER, tid INTEGER, call TEXT, shape TEXT,"
	" range TEXT, stack INTEGER, PRIMARY KEY (process, ordinal)) WITHOUT ROWID;"
	"CREATE TABLE series (process INTEGER, device INTEGER, time_ns INTEGER, allocated_bytes INTEGER,"
	" reserved_bytes INTEGER, driver_bytes INTEGER, used_bytes INTEGER);"
	"CREATE TABLE blocks (moment TEXT, process INTEGER, device INTEGER, address INTEGER, size INTEGER,"
	" alloc_ordinal INTEGER, phase TEXT, step INTEGER, category TEXT, module TEXT, name TEXT, shape TEXT, stack INTEGER);"
	"CREATE TABLE segments (process INTEGER, device INTEGER, address INTEGER, total_size INTEGER, allocated_size INTEGER,"
	" stream INTEGER, segment_type TEXT, is_expandable INTEGER);"
	"CREATE TABLE stacks (stack INTEGER PRIMARY KEY, process INTEGER, python_stack INTEGER, native_stack INTEGER, site TEXT);"
	"CREATE TABLE stack_frames (stack INTEGER, depth INTEGER, frame INTEGER, PRIMARY KEY (stack, depth)) WITHOUT ROWID;"
	"CREATE TABLE frames (frame INTEGER PRIMARY KEY, name TEXT, file TEXT, line INTEGER);";

/* What is made at the end: it would slow each row down. */
static const char finish[] =
	"CREATE INDEX series_time ON series (process, device, time_ns);"
	"CREATE VIEW device_traces AS SELECT process, device, CASE kind WHEN 'tensor_alloc' THEN 'alloc'"
	" WHEN 'tensor_free' THEN 'free_completed' WHEN 'tensor_oom' THEN 'oom' WHEN 'driver_alloc' THEN 'segment_alloc'"
	" ELSE 'segment_free' END AS action, address AS addr, size, stream, time_ns / 1000 AS time_us, stack FROM events"
	" WHERE kind IN ('tensor_alloc', 'tensor_free', 'tensor_oom', 'driver_alloc', 'driver_free');";

/* A device's totals, as its latest row of series has them. */
struct totals {
	int64_t allocated, reserved, driver, used;
};

struct database {
	struct dbfile file;
	struct dbtable processes, devices, events, series, blocks, segments, stacks, stack_frames, frames;
	struct segmenttrack segment_track;
	struct keyset numbers; /* of stacks */
	struct frames stack;
	struct sites sites;
	const struct replay_process *process; /* of `last` */
	struct totals last[TFMT_NR_DEVICES];
};

void sqlite_begin(struct export *x)
{
	struct database *d = heap_alloc(1, sizeof(*d));

	dbfile_open(&d->file, x->path, schema);
	dbtable_open(&d->processes, &d->file, "processes", 14);
	dbtable_open(&d->devices, &d->file, "devices", 17);
	dbtable_open(&d->events, &d->file, "events", 16);
	dbtable_open(&d->series, &d->file, "series", 7);
	dbtable_open(&d->blocks, &d->file, "blocks", 13);
	dbtable_open(&d->segments, &d->file, "segments", 8);
	dbtable_open(&d->stacks, &d->file, "stacks", 5);
	dbtable_open(&d->stack_frames, &d->file, "stack_frames", 3);
	dbtable_open(&d->frames, &d->file, "frames", 4);
	x->state = d;
}

/* ---- what rows have in common ----------------------------------------------------------------- */

static void put_known(struct dbtable *t, bool is_known, uint64_t value)
{
	if (is_known)
		dbtable_int(t, (int64_t)value);
	else
		dbtable_none(t);
}

/* Processes are numbered from 1, by their place in the recording. */
static void put_process(struct dbtable *t, const struct export *x, const struct replay_process *p)
{
	dbtable_int(t, p - x->replay->process + 1);
}

static void put_shape(struct dbtable *t, const struct tfmt_reader *reader, uint32_t id)
{
	char text[SHAPE_TEXT_MAX];
	struct tfmt_shape shape;

	dbtable_text(t, id && tfmt_reader_shape(reader, id, &shape) ? shape_text(text, &shape) : NULL);
}

static void frame_row(struct dbtable *t, const struct frame *f)
{
	dbtable_int(t, f->number);
	dbtable_text(t, f->name);
	dbtable_text(t, f->file);
	put_known(t, f->line, f->line);
	dbtable_end(t);
}

/* A stack and its frames, the innermost first: depth 0. */
static void stack_rows(struct database *d, struct export *x, struct replay_process *p, uint32_t number, uint32_t python,
		       uint32_t native)
{
	struct stack_source source = replay_stack_source(x->replay, p);

	dbtable_int(&d->stacks, number);
	put_process(&d->stacks, x, p);
	dbtable_int(&d->stacks, python);
	dbtable_int(&d->stacks, native);
	dbtable_text(&d->stacks, sites_find(&d->sites, x->replay, p, python, native));
	dbtable_end(&d->stacks);
	frames_clear(&d->stack);
	frames_expand(&d->stack, &source, python, native);
	for (uint32_t i = 0; i < d->stack.nr_frames; i++) {
		const struct frame *f = &d->stack.frame[d->stack.nr_frames - 1 - i];

		if (f->is_new)
			frame_row(&d->frames, f);
		dbtable_int(&d->stack_frames, number);
		dbtable_int(&d->stack_frames, i);
		dbtable_int(&d->stack_frames, f->number);
		dbtable_end(&d->stack_frames);
	}
}

/* The number of a stack, which is written if it has not been; none where nothing was captured. */
static void put_stack(struct dbtable *t, struct export *x, const struct replay_process *p, uint32_t python, uint32_t native)
{
	struct database *d = x->state;
	bool is_new = false, is_any = python >= TFMT_STACK_FIRST || native >= TFMT_STACK_FIRST;
	struct keyset_key key = { { (uint32_t)(p - x->replay->process), python, native } };
	uint32_t number = is_any ? 1 + keyset_add(&d->numbers, key, &is_new) : 0;

	put_known(t, is_any, number);
	if (is_new)
		stack_rows(d, x, export_process(x, p), number, python, native);
}

/* ---- events and series ------------------------------------------------------------------------- */

static void put_range(struct dbtable *t, const struct replay_process *p, const struct tfmt_event *ev)
{
	struct range range = { (uint32_t)ev->address, (uint32_t)ev->size };
	char text[512];

	dbtable_text(t, event_has_text(ev->kind) ? range_label(text, sizeof(text), p->reader, range) : NULL);
}

static void event_row(struct dbtable *t, struct export *x, const struct replay_process *p, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	const char *call = tfmt_reader_function(p->reader, ev->function);
	struct tfmt_thread thread;

	tfmt_reader_thread(p->reader, ev->thread, &thread);
	put_process(t, x, p);
	dbtable_int(t, (int64_t)ev->ordinal);
	dbtable_int(t, (int64_t)time_ns);
	dbtable_text(t, event_kind_name(ev->kind));
	dbtable_text(t, phase_names[p->phase]);
	put_known(t, ev->device != TFMT_DEVICE_NONE, ev->device);
	dbtable_int(t, (int64_t)ev->address);
	dbtable_int(t, (int64_t)ev->size);
	put_known(t, event_aux_name(ev->kind), ev->aux);
	put_known(t, ev->alloc_ordinal != TFMT_NO_ORDINAL, ev->alloc_ordinal);
	dbtable_int(t, ev->stream);
	dbtable_int(t, thread.tid);
	dbtable_text(t, *call ? call : NULL);
	put_shape(t, p->reader, ev->shape);
	put_range(t, p, ev);
	put_stack(t, x, p, ev->python_stack, ev->native_stack);
	dbtable_end(t);
}

static void series_row(struct database *d, struct export *x, const struct replay_process *p, uint8_t device,
		       uint64_t time_ns)
{
	const struct device_books *b = books_device(p->books, device);
	const struct residual_figures *residual = books_residual(p->books, device);
	struct totals now = { (int64_t)b->allocated_bytes, (int64_t)b->reserved_bytes, (int64_t)b->driver_bytes,
			      residual->has_last ? (int64_t)residual->last.used : 0 };

	if (d->process != p)
		memset(d->last, 0, sizeof(d->last));
	d->process = p;
	if (!memcmp(&now, &d->last[device], sizeof(now)))
		return;
	d->last[device] = now;
	put_process(&d->series, x, p);
	dbtable_int(&d->series, device);
	dbtable_int(&d->series, (int64_t)time_ns);
	dbtable_int(&d->series, now.allocated);
	dbtable_int(&d->series, now.reserved);
	dbtable_int(&d->series, now.driver);
	put_known(&d->series, residual->has_last, (uint64_t)now.used);
	dbtable_end(&d->series);
}

void sqlite_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct export *x = ctx;
	struct database *d = x->state;

	segmenttrack_observe(&d->segment_track, process, ev, time_ns);
	if (ev->before || !export_wants_event(x, process, ev))
		return;
	event_row(&d->events, x, process, ev, time_ns);
	if (ev->device < TFMT_NR_DEVICES)
		series_row(d, x, process, ev->device, time_ns);
}

/* ---- at the end -------------------------------------------------------------------------------- */

static void process_row(struct dbtable *t, const struct export *x, const struct replay_process *p)
{
	put_process(t, x, p);
	dbtable_text(t, p->header->host);
	dbtable_int(t, (int64_t)p->header->pid);
	put_known(t, p->rank >= 0, (uint64_t)p->rank);
	put_known(t, p->local_rank >= 0, (uint64_t)p->local_rank);
	dbtable_text(t, p->program);
	dbtable_text(t, p->torch);
	dbtable_text(t, p->simulated);
	dbtable_int(t, (int64_t)p->header->start_real_ns);
	dbtable_int(t, (int64_t)p->start_ns);
	dbtable_int(t, (int64_t)p->last_ns);
	dbtable_text(t, replay_end_names[p->end]);
	dbtable_int(t, (int64_t)p->lost_events);
	dbtable_int(t, replay_is_exact(p));
	dbtable_end(t);
}

static void device_row(struct dbtable *t, const struct export *x, const struct replay_device *d)
{
	const struct device_books *b = d->books;

	put_process(t, x, d->process);
	dbtable_int(t, d->ordinal);
	dbtable_text(t, d->info.name);
	dbtable_text(t, d->info.uuid);
	put_known(t, d->capacity_bytes, d->capacity_bytes);
	dbtable_int(t, (int64_t)b->tensor_allocs);
	dbtable_int(t, (int64_t)b->tensor_frees);
	dbtable_int(t, (int64_t)b->tensor_ooms);
	dbtable_int(t, (int64_t)b->allocated_peak_bytes);
	put_known(t, b->moment[MARK_TENSOR_PEAK].reached, replay_time(d->process, b->moment[MARK_TENSOR_PEAK].time_ns));
	dbtable_int(t, (int64_t)b->allocated_bytes);
	dbtable_int(t, (int64_t)b->reserved_peak_bytes);
	dbtable_int(t, (int64_t)b->reserved_bytes);
	dbtable_int(t, (int64_t)b->driver_allocs);
	dbtable_int(t, (int64_t)b->driver_frees);
	dbtable_int(t, (int64_t)b->driver_peak_bytes);
	dbtable_int(t, (int64_t)b->driver_bytes);
	dbtable_end(t);
}

static void block_row(struct dbtable *t, struct export *x, const struct replay_device *d, const struct category_block *b,
		      enum lives_moment moment, const char *moment_name)
{
	const struct replay_process *p = d->process;
	const struct group *g = books_group(p->books, b->life.group);
	char module[1024];
	struct named named;

	dbtable_text(t, moment_name);
	put_process(t, x, p);
	dbtable_int(t, d->ordinal);
	dbtable_int(t, (int64_t)b->life.address);
	dbtable_int(t, (int64_t)b->life.size);
	dbtable_int(t, (int64_t)b->life.birth.ordinal);
	dbtable_text(t, phase_names[b->life.birth.phase]);
	put_known(t, b->step, b->step);
	dbtable_text(t, category_names[b->category]);
	dbtable_text(t, b->module ? modulepaths_text(p->modulepaths, b->module, 0, module, sizeof(module)) : NULL);
	dbtable_text(t, namedblocks_name(&named, p, &b->life, moment) ? named.name.text : NULL);
	put_shape(t, p->reader, g->shape);
	put_stack(t, x, p, g->python_stack, g->native_stack);
	dbtable_end(t);
}

static void block_rows(struct dbtable *t, struct export *x, const struct replay_device *d, enum export_at at)
{
	enum lives_moment moment = categories_moment(d->process, d->ordinal, export_mark(d, at));
	struct categories c;

	if (!d->has_tensors || moment == LIVES_NONE)
		return;
	categories_find(&c, d->process, d->ordinal, moment, 0);
	for (size_t i = 0; i < c.nr_blocks; i++)
		block_row(t, x, d, &c.block[i], moment, at == EXPORT_PEAK ? "peak" : "end");
	categories_release(&c);
}

static void segment_rows(struct dbtable *t, const struct export *x, const struct replay_device *d,
			 struct segmenttrack *track)
{
	struct segmentlist l;
	struct life *life;
	size_t nr_lives;

	lives_list(d->process->lives, d->ordinal, LIVES_END, &life, &nr_lives);
	segmenttrack_list(&l, track, d, life, nr_lives);
	free(life);
	for (size_t i = 0; i < l.nr_segments; i++) {
		const struct segmentlist_segment *s = &l.segment[i];

		put_process(t, x, d->process);
		dbtable_int(t, d->ordinal);
		dbtable_int(t, (int64_t)s->address);
		dbtable_int(t, (int64_t)s->size);
		dbtable_int(t, (int64_t)s->live_bytes);
		dbtable_int(t, s->stream);
		dbtable_text(t, s->is_small ? "small" : "large");
		dbtable_int(t, s->is_expandable);
		dbtable_end(t);
	}
	segmentlist_release(&l);
}

static void device_rows(struct database *d, struct export *x, const struct replay_device *device)
{
	device_row(&d->devices, x, device);
	block_rows(&d->blocks, x, device, EXPORT_PEAK);
	block_rows(&d->blocks, x, device, EXPORT_END);
	if (device->has_tensors)
		segment_rows(&d->segments, x, device, &d->segment_track);
}

static void close_tables(struct database *d)
{
	struct dbtable *const tables[] = { &d->processes, &d->devices, &d->events, &d->series, &d->blocks, &d->segments,
					   &d->stacks, &d->stack_frames, &d->frames };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		dbtable_close(tables[i]);
}

int sqlite_finish(struct export *x)
{
	struct database *d = x->state;
	int ret;

	for (size_t i = 0; i < x->replay->nr_processes; i++)
		if (export_wants_process(x, &x->replay->process[i]))
			process_row(&d->processes, x, &x->replay->process[i]);
	for (size_t i = 0; i < x->replay->nr_devices; i++)
		if (export_wants_device(x, &x->replay->device[i]))
			device_rows(d, x, &x->replay->device[i]);
	close_tables(d);
	dbfile_run(&d->file, finish);
	ret = dbfile_close(&d->file);
	segmenttrack_release(&d->segment_track);
	keyset_release(&d->numbers);
	frames_release(&d->stack);
	sites_release(&d->sites);
	free(d);
	return ret;
}
