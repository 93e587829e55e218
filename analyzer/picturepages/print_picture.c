/* SPDX-License-Identifier: MIT */
/* Columns of a picture. */
#include "analyzer/picturepages/print_picture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/picturepages/stacktable.h"
#include "analyzer/picturepages/sourcewindows.h"
#include "analyzer/stacks/element.h"
#include "analyzer/stacks/owner_names.h"
#include "analyzer/ui/jsonout.h"

#define STEPS_MAX 10000
#define SPANS_MAX 4000 /* pieces of driver memory of each device */
#define PARTS_OF_TOTALS 8
#define MODULE_TEXT_MAX 1024

struct printing {
	struct jsonout j;
	struct replay *m;
	const struct picture *picture;
	const struct print_picture_options *options;
	struct stacktable table;
};

/* ---- columns ----------------------------------------------------------------------------------- */

static void put_int(struct jsonout *j, const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, value);
	jsonout_value(j, key, text);
}

/* So many numbers, each `stride` bytes after the one before, of 4 or 8 bytes. The end of time is -1. */
static void put_column(struct jsonout *j, const char *key, const void *first, size_t nr, size_t stride, size_t size)
{
	int64_t before = 0;

	jsonout_begin(j, key, '[');
	for (size_t i = 0; i < nr; i++) {
		const char *at = (const char *)first + i * stride;
		int64_t value = 0;

		if (size == sizeof(uint64_t))
			value = (int64_t)*(const uint64_t *)(const void *)at;
		else if (size == sizeof(uint32_t))
			value = *(const uint32_t *)(const void *)at;
		else
			value = *(const uint8_t *)at;
		put_int(j, NULL, value - before);
		before = value;
	}
	jsonout_end(j);
}
#define PUT_COLUMN(j, key, rows, nr, field) \
	put_column(j, key, (nr) ? &(rows)->field : NULL, nr, sizeof(*(rows)), sizeof((rows)->field))

static void put_texts(struct jsonout *j, const char *key, const struct textset *texts)
{
	jsonout_begin(j, key, '[');
	for (size_t i = 0; i < texts->nr_members; i++)
		jsonout_string(j, NULL, texts->member[i]->text);
	jsonout_end(j);
}

static void put_names(struct jsonout *j, const char *key, const char *const *names, size_t nr)
{
	jsonout_begin(j, key, '[');
	for (size_t i = 0; i < nr; i++)
		jsonout_string(j, NULL, names[i]);
	jsonout_end(j);
}

/* ---- one device -------------------------------------------------------------------------------- */

/* What each library had taken from the driver. */
static void print_owners(struct printing *q, const struct replay_device *d, const struct moments_point *point, size_t nr)
{
	const struct driverspans *spans = &picture_process_of(q->picture, d->process)->spans;
	size_t nr_owners;
	struct pieces_owner *owner = pieces_owners(spans, d->process->books, d->ordinal, point, nr, &nr_owners);
	struct jsonout *j = &q->j;

	jsonout_begin(j, "owners", '[');
	for (size_t i = 0; i < nr_owners; i++) {
		jsonout_begin(j, NULL, '{');
		put_int(j, "owner", stacktable_text(&q->table, owner_names[owner[i].owner]));
		put_column(j, "bytes", owner[i].bytes, nr, sizeof(*owner[i].bytes), sizeof(*owner[i].bytes));
		jsonout_end(j);
	}
	jsonout_end(j);
	pieces_owners_free(owner, nr_owners);
}

static void print_points(struct printing *q, const struct replay_device *device, const struct picture_device *d,
			 const struct moments_point *point, size_t nr)
{
	struct jsonout *j = &q->j;

	jsonout_begin(j, "points", '{');
	PUT_COLUMN(j, "from_ns", point, nr, from_ns);
	PUT_COLUMN(j, "time_ns", point, nr, moment.time_ns);
	PUT_COLUMN(j, "allocated_bytes", point, nr, moment.allocated);
	PUT_COLUMN(j, "least_bytes", point, nr, least);
	PUT_COLUMN(j, "reserved_bytes", point, nr, moment.reserved);
	PUT_COLUMN(j, "driver_bytes", point, nr, moment.driver);
	PUT_COLUMN(j, "used_bytes", point, nr, moment.used);
	PUT_COLUMN(j, "phase", point, nr, moment.phase);
	jsonout_begin(j, "categories", '[');
	if (d->rows) {
		uint64_t *bytes = liverows_categories(d->rows, point, nr);

		for (size_t i = 0; i < NR_CATEGORIES; i++)
			put_column(j, NULL, bytes + i, nr, NR_CATEGORIES * sizeof(*bytes), sizeof(*bytes));
		free(bytes);
	}
	jsonout_end(j);
	print_owners(q, device, point, nr);
	jsonout_end(j);
}

/* A kind with the numbers of its stack and texts. */
struct kind_row {
	uint32_t stack, module, name, category, phase, shape;
};

static uint32_t module_text(struct printing *q, const struct replay_process *process, uint32_t path)
{
	char text[MODULE_TEXT_MAX];

	return path && process->modulepaths
		       ? stacktable_text(&q->table, modulepaths_text(process->modulepaths, path, 0, text, sizeof(text)))
		       : 0;
}

static uint32_t shape_number(struct printing *q, const struct replay_process *process, const struct group *g)
{
	struct tfmt_shape shape;
	char text[SHAPE_TEXT_MAX];

	return g->shape && tfmt_reader_shape(process->reader, g->shape, &shape)
		       ? stacktable_text(&q->table, shape_text(text, &shape))
		       : 0;
}

static uint32_t name_text(struct printing *q, const struct liverows_shown *s, uint32_t name)
{
	return name ? stacktable_text(&q->table, s->names.member[name - 1]->text) : 0;
}

static void print_kinds(struct printing *q, struct replay_process *process, const struct liverows_shown *s)
{
	struct kind_row *row = heap_alloc(s->nr_kinds, sizeof(*row));
	struct jsonout *j = &q->j;

	for (size_t i = 0; i < s->nr_kinds; i++) {
		const struct liverow_kind *k = &s->kind[i];
		const struct group *g = books_group(process->books, k->group);

		row[i] = (struct kind_row){
			.stack = stacktable_add(&q->table, q->m, process, g->python_stack, g->native_stack),
			.module = module_text(q, process, k->module),
			.name = name_text(q, s, k->name),
			.category = k->category,
			.phase = k->phase,
			.shape = shape_number(q, process, g),
		};
	}
	jsonout_begin(j, "kinds", '{');
	PUT_COLUMN(j, "stack", row, s->nr_kinds, stack);
	PUT_COLUMN(j, "module", row, s->nr_kinds, module);
	PUT_COLUMN(j, "name", row, s->nr_kinds, name);
	PUT_COLUMN(j, "category", row, s->nr_kinds, category);
	PUT_COLUMN(j, "phase", row, s->nr_kinds, phase);
	PUT_COLUMN(j, "shape", row, s->nr_kinds, shape);
	jsonout_end(j);
	free(row);
}

static void print_blocks(struct printing *q, const struct liverows_shown *s)
{
	uint32_t *name = heap_alloc(s->nr_large, sizeof(*name));
	struct jsonout *j = &q->j;

	for (size_t i = 0; i < s->nr_large; i++)
		name[i] = name_text(q, s, s->large[i].name);
	jsonout_begin(j, "blocks", '{');
	PUT_COLUMN(j, "birth_ns", s->large, s->nr_large, birth_ns);
	PUT_COLUMN(j, "death_ns", s->large, s->nr_large, death_ns);
	PUT_COLUMN(j, "address", s->large, s->nr_large, address);
	PUT_COLUMN(j, "bytes", s->large, s->nr_large, bytes);
	PUT_COLUMN(j, "kind", s->large, s->nr_large, kind);
	PUT_COLUMN(j, "step", s->large, s->nr_large, step);
	put_column(j, "name", name, s->nr_large, sizeof(*name), sizeof(*name));
	jsonout_end(j);
	free(name);
}

static void print_summed(struct printing *q, const struct liverows_shown *s)
{
	struct jsonout *j = &q->j;

	jsonout_begin(j, "summed", '{');
	PUT_COLUMN(j, "time_ns", s->point, s->nr_points, moment.time_ns);
	PUT_COLUMN(j, "first", s->summed, s->nr_summed, first);
	PUT_COLUMN(j, "last", s->summed, s->nr_summed, last);
	PUT_COLUMN(j, "kind", s->summed, s->nr_summed, kind);
	PUT_COLUMN(j, "bytes", s->summed, s->nr_summed, bytes);
	PUT_COLUMN(j, "count", s->summed, s->nr_summed, count);
	PUT_COLUMN(j, "piece", s->summed, s->nr_summed, piece);
	jsonout_end(j);
}

static void print_rows(struct printing *q, struct replay_process *process, const struct picture_device *d,
		       const struct pieces *pieces, size_t max_large)
{
	const struct liverows_limits limits = { max_large, q->options->max_parts, pieces };
	struct liverows_shown s;

	if (!d->rows)
		return;
	liverows_show(&s, d->rows, &d->moments, &limits);
	put_int(&q->j, "nr_blocks", (int64_t)s.nr_blocks);
	print_kinds(q, process, &s);
	print_blocks(q, &s);
	print_summed(q, &s);
	liverows_shown_release(&s);
}

/* ---- driver memory ----------------------------------------------------------------------------- */

struct span_row {
	uint64_t from_ns, until_ns, address, bytes;
	uint32_t stack, owner, is_page;
};

static struct span_row span_row(struct printing *q, struct replay_process *process, const struct driverspan *span)
{
	const struct group *g = books_group(process->books, span->group);

	return (struct span_row){
		.from_ns = span->from_ns,
		.until_ns = span->until_ns,
		.address = span->address,
		.bytes = span->bytes,
		.stack = stacktable_add(&q->table, q->m, process, g->python_stack, g->native_stack),
		.owner = stacktable_text(&q->table, owner_names[books_group_owner(process->books, g)]),
		.is_page = span->space == BLOCK_MAPPING,
	};
}

static void print_pieces(struct printing *q, struct replay_process *process, const struct pieces *pieces)
{
	size_t nr_shown = pieces->nr_pieces;
	struct span_row *row = heap_alloc(nr_shown, sizeof(*row));
	struct jsonout *j = &q->j;

	for (size_t i = 0; i < nr_shown; i++)
		row[i] = span_row(q, process, pieces->piece[i]);
	jsonout_begin(j, "driver", '{');
	put_int(j, "left_out", (int64_t)pieces->nr_left_out);
	PUT_COLUMN(j, "from_ns", row, nr_shown, from_ns);
	PUT_COLUMN(j, "until_ns", row, nr_shown, until_ns);
	PUT_COLUMN(j, "address", row, nr_shown, address);
	PUT_COLUMN(j, "bytes", row, nr_shown, bytes);
	PUT_COLUMN(j, "stack", row, nr_shown, stack);
	PUT_COLUMN(j, "owner", row, nr_shown, owner);
	PUT_COLUMN(j, "is_page", row, nr_shown, is_page);
	jsonout_end(j);
	free(row);
}

/* ---- devices ----------------------------------------------------------------------------------- */

static void print_steps(struct printing *q, const struct replay_process *process, const struct moments_point *point,
			size_t nr_points)
{
	uint32_t every;
	size_t nr;
	uint64_t *time_ns = picture_steps(process, point, nr_points, STEPS_MAX, &nr, &every);

	jsonout_begin(&q->j, "steps", '{');
	put_int(&q->j, "every", every);
	put_column(&q->j, "begin_ns", time_ns, nr, sizeof(*time_ns), sizeof(*time_ns));
	jsonout_end(&q->j);
	free(time_ns);
}

static void print_failures(struct printing *q, const struct picture_process *p, uint32_t device)
{
	jsonout_begin(&q->j, "failures", '[');
	for (size_t i = 0; i < p->nr_failures; i++) {
		if (p->failure[i].device != device)
			continue;
		jsonout_begin(&q->j, NULL, '{');
		put_int(&q->j, "time_ns", (int64_t)p->failure[i].time_ns);
		put_int(&q->j, "asked_bytes", (int64_t)p->failure[i].asked_bytes);
		jsonout_end(&q->j);
	}
	jsonout_end(&q->j);
}

/* A number that may be missing: -1 is null. */
static void put_optional(struct jsonout *j, const char *key, int64_t number)
{
	if (number < 0)
		jsonout_value(j, key, "null");
	else
		put_int(j, key, number);
}

static void print_device(struct printing *q, const struct replay_device *d, size_t nr_devices)
{
	const struct picture_device *of = picture_device_of(q->picture, d);
	const struct picture_process *process = picture_process_of(q->picture, d->process);
	size_t nr_points;
	struct moments_point *point;
	struct pieces pieces;
	struct jsonout *j = &q->j;

	if (!of)
		return;
	pieces_open(&pieces, &process->spans, d->ordinal, SPANS_MAX);
	point = moments_points(&of->moments, PARTS_OF_TOTALS * q->options->max_parts, &nr_points);
	jsonout_begin(j, NULL, '{');
	jsonout_string(j, "host", d->process->header->host);
	put_int(j, "pid", (int64_t)d->process->header->pid);
	put_optional(j, "rank", d->process->rank);
	put_int(j, "device", d->ordinal);
	jsonout_string(j, "name", d->info.name);
	put_optional(j, "capacity_bytes", d->capacity_bytes && !d->is_unlimited ? (int64_t)d->capacity_bytes : -1);
	jsonout_value(j, "has_tensors", d->has_tensors ? "true" : "false");
	print_points(q, d, of, point, nr_points);
	print_steps(q, d->process, point, nr_points);
	print_failures(q, process, d->ordinal);
	print_rows(q, d->process, of, &pieces, q->options->max_large / nr_devices + 100);
	print_pieces(q, d->process, &pieces);
	jsonout_end(j);
	pieces_close(&pieces);
	free(point);
}

/* ---- the document ------------------------------------------------------------------------------ */

static void print_table(struct printing *q)
{
	const struct stacktable *t = &q->table;
	struct jsonout *j = &q->j;

	jsonout_begin(j, "frames", '{');
	PUT_COLUMN(j, "file", t->frame, t->nr_frames, file);
	PUT_COLUMN(j, "line", t->frame, t->nr_frames, line);
	PUT_COLUMN(j, "function", t->frame, t->nr_frames, function);
	PUT_COLUMN(j, "flags", t->frame, t->nr_frames, flags);
	jsonout_end(j);
	jsonout_begin(j, "calls", '{');
	PUT_COLUMN(j, "frame", t->call, t->nr_calls, frame);
	PUT_COLUMN(j, "caller", t->call, t->nr_calls, caller);
	jsonout_end(j);
	jsonout_begin(j, "stacks", '{');
	PUT_COLUMN(j, "call", t->stack, t->nr_stacks, call);
	PUT_COLUMN(j, "site", t->stack, t->nr_stacks, site);
	PUT_COLUMN(j, "program", t->stack, t->nr_stacks, program);
	jsonout_end(j);
	put_texts(j, "texts", &t->texts);
}

void print_picture(FILE *out, struct replay *m, const struct picture *p, const struct print_picture_options *o)
{
	struct printing q = { .j = { .out = out, .compact = true }, .m = m, .picture = p, .options = o };
	struct jsonout *j = &q.j;

	jsonout_begin(j, NULL, '{');
	jsonout_string(j, "schema", "vramtrace/picture/1");
	put_int(j, "duration_ns", (int64_t)m->duration_ns);
	put_names(j, "categories", category_names, NR_CATEGORIES);
	put_names(j, "phases", phase_names, NR_PHASES);
	jsonout_begin(j, "devices", '[');
	for (size_t i = 0; i < m->nr_devices; i++)
		print_device(&q, &m->device[i], m->nr_devices);
	jsonout_end(j);
	print_table(&q);
	print_sources(j, m, &q.table, o->with_source);
	jsonout_end(j);
	stacktable_release(&q.table);
}
