/* SPDX-License-Identifier: MIT */
/* vramtrace dump: every event of a recording, process by process, in the order of its trace. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/ledger/books.h"
#include "analyzer/recording/eventname.h"
#include "analyzer/recording/kept.h"
#include "analyzer/recording/recording.h"
#include "analyzer/recording/traceview.h"
#include "analyzer/stacks/element.h"
#include "analyzer/stacks/stack.h"
#include "analyzer/training/phases.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

struct dump_opts {
	struct emit_opts emit;
	const char *kind, *from, *to;
	int64_t limit;
	bool verbose;
};

static const struct opt dump_optv[] = {
	OPT_STRING('k', "kind", struct dump_opts, kind, "KIND[,KIND]",
		   "only these: tensor_alloc, driver_free, ..."),
	OPT_STRING(0, "from", struct dump_opts, from, "TIME", "begin at TIME (12.5s, 300ms), or right after"),
	OPT_STRING(0, "to", struct dump_opts, to, "TIME", "end before the first event later than TIME"),
	OPT_INT('n', "limit", struct dump_opts, limit, "N", "stop after N events"),
	OPT_FLAG('v', "verbose", struct dump_opts, verbose, "whole call stacks, innermost frame first"),
	EMIT_JSON_OPTIONS(struct dump_opts, emit),
	OPT_END
};

static const struct opt_help dump_help = {
	.command = "dump",
	.purpose = "Print every event of a recording, one per line (JSON: one object per line).",
	.usage = "[options] RECORDING",
	.example = "vramtrace dump --kind tensor_alloc -v train.vtr\n"
		   "vramtrace dump --from 12.5s --to 12.6s train.vtr",
	.options = dump_optv,
};

struct dump {
	struct emit *e;
	const struct dump_opts *opts;
	uint64_t kinds; /* bit per kind wanted */
	uint64_t left;  /* events still to print */
	uint64_t from_ns, to_ns; /* of which time, since the start of a trace; 0, UINT64_MAX: of all */
	uint64_t begin_ns, end_ns; /* of what the traces hold, as far as it was read */
	struct symbols *symbols;
	struct stack stack;
	struct phases phases; /* of the trace being printed */
};

/* --kind into bits; 0 after a message. */
static uint64_t parse_kinds(const char *text)
{
	uint64_t kinds = 0;

	if (!text)
		return UINT64_MAX;
	while (*text) {
		size_t len = strcspn(text, ",");
		unsigned kind = TFMT_NONE + 1;

		while (kind < TFMT_NR_KINDS &&
		       (strlen(event_kind_name(kind)) != len || strncmp(event_kind_name(kind), text, len)))
			kind++;
		if (kind == TFMT_NR_KINDS) {
			opt_wrong(&dump_help, "'%.*s' is no kind of event", (int)len, text);
			return 0;
		}
		kinds |= 1ull << kind;
		text += len + (text[len] == ',');
	}
	if (!kinds)
		opt_wrong(&dump_help, "'--kind' names no kind of event");
	return kinds;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void emit_frame(struct emit *e, const struct stack_frame *f)
{
	char text[512];

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "file", NULL, f->file);
	emit_uint(e, "line", NULL, f->line);
	emit_string(e, "function", NULL, f->function);
	if (f->node)
		emit_bool(e, "node", NULL, true);
	else if (!f->python && !f->cut) {
		emit_string(e, "module", NULL, f->module);
		emit_uint(e, "offset", NULL, f->offset);
	}
	if (f->cut == STACK_CUT_UNKNOWN)
		emit_null(e, "cut", NULL);
	else if (f->cut)
		emit_uint(e, "cut", NULL, f->cut);
	if (f->from_forward)
		emit_bool(e, "from_forward", NULL, true);
	emit_object_end(e);
	emit_text(e, "              %s%s", f->from_forward ? "from forward " : "", stack_frame_text(text, sizeof(text), f));
}

/* One of the two stacks of an event: a list of frames, or null if there is none. */
static void emit_stack(struct dump *d, struct stack_source *source, const char *key, uint32_t python,
		       uint32_t native)
{
	if (python < TFMT_STACK_FIRST && native < TFMT_STACK_FIRST) {
		emit_null(d->e, key, NULL);
		return;
	}
	emit_array_begin(d->e, key, NULL);
	stack_expand(&d->stack, source, python, native);
	for (uint32_t i = 0; i < d->stack.nr_frames; i++)
		emit_frame(d->e, &d->stack.frame[i]);
	emit_array_end(d->e);
}

/* The nn.Modules that a stack's frames call, innermost first; JSON only. */
static void emit_modules(struct emit *e, const struct tfmt_reader *reader, uint32_t stack)
{
	struct tfmt_instance module;
	struct tfmt_call call;
	bool any = false;

	for (; tfmt_reader_call(reader, stack, &call); stack = call.parent) {
		if (!call.instance)
			continue;
		if (!any)
			emit_array_begin(e, "modules", NULL);
		any = true;
		tfmt_reader_instance(reader, call.instance, &module);
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "class", NULL, module.class_name);
		emit_uint(e, "address", NULL, module.address);
		emit_object_end(e);
	}
	if (any)
		emit_array_end(e);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void emit_shape(struct emit *e, const struct tfmt_reader *reader, const struct tfmt_event *ev)
{
	struct tfmt_shape shape;

	if (!ev->shape || !tfmt_reader_shape(reader, ev->shape, &shape)) {
		emit_null(e, "shape", NULL);
		emit_null(e, "dtype", NULL);
		return;
	}
	emit_array_begin(e, "shape", NULL);
	for (uint32_t i = 0; i < shape.nr_dims; i++)
		emit_uint(e, NULL, NULL, shape.dims[i]);
	emit_array_end(e);
	emit_string(e, "dtype", NULL, element_name(shape.element_type));
	emit_uint(e, "storage_bytes", NULL, shape.bytes);
}

static bool has_space(unsigned kind)
{
	return kind == TFMT_DRIVER_ALLOC || kind == TFMT_DRIVER_FREE || kind == TFMT_ALLOC_FAILED;
}

static bool is_range(unsigned kind)
{
	return event_has_text(kind) || kind == TFMT_RANGE_POP || kind == TFMT_RANGE_END;
}

static void emit_flags(struct emit *e, const struct tfmt_event *ev)
{
	emit_bool(e, "teardown", NULL, ev->flags & TFMT_FLAG_TEARDOWN);
	emit_bool(e, "capturing", NULL, ev->flags & TFMT_FLAG_CAPTURING);
	emit_bool(e, "modelled", NULL, ev->flags & TFMT_FLAG_MODELLED);
	emit_bool(e, "estimated", NULL, ev->flags & TFMT_FLAG_ESTIMATED);
}

static uint64_t time_since_start(const struct traceview *v, const struct tfmt_event *ev)
{
	return ev->time_ns > v->header->start_mono_ns ? ev->time_ns - v->header->start_mono_ns : 0;
}

static void emit_event(struct emit *e, const struct traceview *v, const struct tfmt_event *ev, enum phase phase)
{
	const char *function = tfmt_reader_function(v->reader, ev->function), *aux = event_aux_name(ev->kind);
	struct tfmt_thread thread;

	emit_uint(e, "pid", NULL, v->header->pid);
	emit_uint(e, "ordinal", NULL, ev->ordinal);
	if (ev->before)
		emit_bool(e, "before", NULL, true);
	emit_ns(e, "time_ns", NULL, time_since_start(v, ev));
	emit_string(e, "kind", NULL, event_kind_name(ev->kind));
	emit_string(e, "phase", NULL, phase_names[phase]);
	if (ev->device != TFMT_DEVICE_NONE)
		emit_uint(e, "device", NULL, ev->device);
	else
		emit_null(e, "device", NULL);
	emit_uint(e, "address", NULL, ev->address);
	emit_uint(e, "size", NULL, ev->size);
	if (aux)
		emit_uint(e, aux, NULL, ev->aux);
	if (event_has_text(ev->kind))
		emit_string(e, "name", NULL, tfmt_reader_string(v->reader, (uint32_t)ev->address));
	if (event_has_text(ev->kind) || ev->kind == TFMT_RANGE_POP)
		emit_string(e, "domain", NULL, ev->size ? tfmt_reader_string(v->reader, (uint32_t)ev->size) : NULL);
	if (has_space(ev->kind))
		emit_string(e, "space", NULL, event_space_name(ev->flags & TFMT_SPACE_MASK));
	if (ev->kind >= TFMT_OBJECT_NEW && ev->kind <= TFMT_OBJECT_SET)
		emit_string(e, "object", NULL, event_object_name(ev->flags & TFMT_SPACE_MASK));
	if (ev->alloc_ordinal != TFMT_NO_ORDINAL)
		emit_uint(e, "alloc_ordinal", NULL, ev->alloc_ordinal);
	tfmt_reader_thread(v->reader, ev->thread, &thread);
	emit_uint(e, "tid", NULL, thread.tid);
	emit_string(e, "thread", NULL, thread.name);
	emit_uint(e, "stream", NULL, ev->stream);
	emit_string(e, "call", NULL, *function ? function : NULL);
	emit_shape(e, v->reader, ev);
	emit_flags(e, ev);
	emit_uint(e, "python_stack", NULL, ev->python_stack);
	emit_uint(e, "native_stack", NULL, ev->native_stack);
	emit_bool(e, "no_python", NULL, ev->python_stack == TFMT_STACK_NO_PYTHON);
}

/* What sets it apart: it is only still in effect where the kept part begins, or counts in no figure. */
static const char *note_of(const struct tfmt_event *ev)
{
	return ev->before ? "  before" : ev->flags & TFMT_FLAG_TEARDOWN ? "  teardown" : "";
}

/* A range, mark or settings as one line for people. */
static void print_range(struct emit *e, const struct traceview *v, const struct tfmt_event *ev)
{
	struct range range = { event_has_text(ev->kind) ? (uint32_t)ev->address : 0, (uint32_t)ev->size };
	uint64_t time_ns = time_since_start(v, ev);
	const char *aux = event_aux_name(ev->kind);
	char text[512] = "", extra[64] = "";
	struct tfmt_thread thread;

	if (event_has_text(ev->kind))
		range_label(text, sizeof(text), v->reader, range);
	else if (ev->size)
		snprintf(text, sizeof(text), "%s", tfmt_reader_string(v->reader, range.domain));
	if (aux && ev->aux)
		snprintf(extra, sizeof(extra), "%s=%" PRIu64 " ", aux, ev->aux);
	if (ev->kind == TFMT_SETTINGS && !*tfmt_reader_string(v->reader, range.name))
		snprintf(text, sizeof(text), "(none)");
	tfmt_reader_thread(v->reader, ev->thread, &thread);
	emit_text(e, "%8" PRIu64 " %6" PRIu64 ".%09" PRIu64 "  %-12s %stid=%u%s%s%s", ev->ordinal,
		  time_ns / 1000000000u, time_ns % 1000000000u, event_kind_name(ev->kind), extra, thread.tid,
		  *text ? "  " : "", text, note_of(ev));
}

/* The event as one line for people. */
static void print_event(struct emit *e, const struct traceview *v, const struct tfmt_event *ev)
{
	const char *function = tfmt_reader_function(v->reader, ev->function), *aux = event_aux_name(ev->kind);
	uint64_t time_ns = time_since_start(v, ev);
	char size[HUMAN_MAX], shape_buf[SHAPE_TEXT_MAX] = "", device[8] = "-", extra[128] = "";
	struct tfmt_shape shape;
	struct tfmt_thread thread;

	if (ev->device != TFMT_DEVICE_NONE)
		snprintf(device, sizeof(device), "%u", ev->device);
	if (emit_is_raw(e))
		snprintf(size, sizeof(size), "%" PRIu64, ev->size);
	else
		human_bytes(size, ev->size);
	if (ev->shape && tfmt_reader_shape(v->reader, ev->shape, &shape))
		shape_text(shape_buf, &shape);
	if (has_space(ev->kind))
		snprintf(extra, sizeof(extra), " %s", event_space_name(ev->flags & TFMT_SPACE_MASK));
	else if (ev->kind >= TFMT_OBJECT_NEW && ev->kind <= TFMT_OBJECT_SET)
		snprintf(extra, sizeof(extra), " %s", event_object_name(ev->flags & TFMT_SPACE_MASK));
	if (ev->kind == TFMT_COPY && !ev->aux)
		snprintf(extra, sizeof(extra), " from the host");
	else if (ev->kind == TFMT_COPY)
		snprintf(extra, sizeof(extra), " from 0x%012" PRIx64, ev->aux);
	else if (aux && (ev->aux || !*extra))
		snprintf(extra + strlen(extra), sizeof(extra) - strlen(extra), " %s=%" PRIu64, aux, ev->aux);
	tfmt_reader_thread(v->reader, ev->thread, &thread);
	emit_text(e,
		  "%8" PRIu64 " %6" PRIu64 ".%09" PRIu64 "  %-12s gpu %-2s 0x%012" PRIx64
		  " %10s%s tid=%u%s%s%s%s%s",
		  ev->ordinal, time_ns / 1000000000u, time_ns % 1000000000u, event_kind_name(ev->kind),
		  device, ev->address, size, extra, thread.tid, *function ? " " : "", function,
		  *shape_buf ? "  " : "", shape_buf, note_of(ev));
}

static void dump_event(struct dump *d, const struct traceview *v, struct stack_source *source,
		       const struct tfmt_event *ev, enum phase phase)
{
	emit_record_begin(d->e);
	if (emit_is_text(d->e) && is_range(ev->kind))
		print_range(d->e, v, ev);
	else if (emit_is_text(d->e))
		print_event(d->e, v, ev);
	else
		emit_event(d->e, v, ev, phase);
	if (d->opts->verbose) {
		emit_stack(d, source, "python", ev->python_stack, 0);
		emit_modules(d->e, v->reader, ev->python_stack);
		emit_stack(d, source, "native", 0, ev->native_stack);
	}
	emit_record_end(d->e);
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Where reading begins is known now: at the start, with what a flight recorder kept, or at a checkpoint. */
static void note_begin(struct dump *d, const struct traceview *v)
{
	const struct tfmt_figures *figures = tfmt_reader_figures(v->reader);

	if (figures && figures->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_BEGUN])
		d->phases.has_begun = true;
}

static bool is_wanted(const struct dump *d, const struct tfmt_event *ev)
{
	return d->kinds >> ev->kind & 1 && !(ev->before && d->from_ns);
}

static void dump_events(struct dump *d, struct traceview *v)
{
	struct mapping mapping;
	enum phase phase;
	struct stack_source source = { .reader = v->reader, .mapping = &mapping, .symbols = d->symbols };
	bool is_past = true, is_inside = !d->from_ns;
	struct tfmt_event ev;
	int ret;

	d->phases.reader = v->reader;
	mapping_init(&mapping, v->reader);
	while (d->left && (ret = traceview_next(v, &ev)) != 0) {
		if (ret < 0) {
			phases_damaged(&d->phases);
			continue;
		}
		if (is_past && !ev.before) {
			note_begin(d, v);
			is_past = false;
		}
		phase = phases_next(&d->phases, &ev);
		if (!ev.before && time_since_start(v, &ev) > d->to_ns)
			break;
		is_inside |= !ev.before && time_since_start(v, &ev) >= d->from_ns;
		if (!is_inside || !is_wanted(d, &ev))
			continue;
		dump_event(d, v, &source, &ev, phase);
		d->left--;
	}
	phases_release(&d->phases);
	mapping_release(&mapping);
}

/* What this trace holds, as far as it was read, is part of what the recording does. */
static void note_span(struct dump *d, const struct traceview *v)
{
	uint64_t start = v->header->start_mono_ns, begin_ns;

	if (!kept_from(v->reader, &begin_ns) || begin_ns < start)
		begin_ns = start;
	if (d->begin_ns > begin_ns - start)
		d->begin_ns = begin_ns - start;
	if (d->end_ns < v->last_ns - start)
		d->end_ns = v->last_ns - start;
}

/* Is anything of the time that was asked for in the recording? */
static int check_span(const struct dump *d, const char *path)
{
	uint64_t begin = d->begin_ns, end = d->end_ns;

	if (d->left && d->from_ns > end)
		return message_error("'%s' holds nothing of that time: it ends at %" PRIu64 ".%09" PRIu64 "s", path,
				     end / 1000000000u, end % 1000000000u);
	if (d->left && d->to_ns < begin)
		return message_error("'%s' keeps nothing of that time: it begins at %" PRIu64 ".%09" PRIu64 "s", path,
				     begin / 1000000000u, begin % 1000000000u);
	return CMD_FINE;
}

/* Most of what comes before --from is passed over. */
static void seek(const struct dump *d, struct traceview *v)
{
	uint64_t start = v->header->start_mono_ns;
	uint64_t from = d->from_ns < UINT64_MAX - start ? start + d->from_ns : UINT64_MAX;

	if (d->from_ns && tfmt_reader_seek(v->reader, from) == TFMT_E_NOMEM)
		heap_need(NULL);
}

/* Returns CMD_FINE, or CMD_TROUBLE after a message. */
static int dump_trace(struct dump *d, const char *path, bool with_name)
{
	int status = CMD_FINE;
	struct traceview v;
	uint64_t from_ns;

	if (!traceview_open(&v, path)) {
		if (with_name)
			emit_heading(d->e, "%s", path);
		seek(d, &v);
		dump_events(d, &v);
		note_span(d, &v);
	}
	if (v.reader && kept_from(v.reader, &from_ns) && !d->from_ns)
		message_info("'%s' keeps the events from %" PRIu64 " on, and ('before') what was in effect then", path,
			     tfmt_reader_summary(v.reader)->dropped_events);
	if (v.trouble[0])
		status = message_error("%s", v.trouble);
	traceview_close(&v);
	return status;
}

static int dump_recording(struct dump *d, const char *path)
{
	struct recording r;
	int status = CMD_FINE;
	char why[2048];

	if (recording_open(&r, path, why, sizeof(why)))
		status = message_error("%s", why);
	for (size_t i = 0; i < r.nr_traces && d->left; i++)
		status |= dump_trace(d, r.trace[i], r.nr_traces > 1);
	recording_release(&r);
	return status == CMD_FINE ? check_span(d, path) : status;
}

/* --from and --to; false after a message. */
static bool parse_span(struct dump *d, const struct dump_opts *o)
{
	d->begin_ns = d->to_ns = UINT64_MAX;
	if (o->from && !human_parse_time(o->from, &d->from_ns))
		opt_wrong(&dump_help, "'%s' is not a time such as 12.5s or 300ms", o->from);
	else if (o->to && !human_parse_time(o->to, &d->to_ns))
		opt_wrong(&dump_help, "'%s' is not a time such as 12.5s or 300ms", o->to);
	else if (d->from_ns > d->to_ns)
		opt_wrong(&dump_help, "'--to' is earlier than '--from'");
	else
		return true;
	return false;
}

int cmd_dump(int argc, const char **argv)
{
	struct dump_opts o = { .limit = INT64_MAX };
	enum opt_result parsed = opt_parse(&dump_help, &argc, argv, &o);
	struct dump d = { .opts = &o };
	int status;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&dump_help, argc < 2 ? "no recording to read" : "one recording at a time");
	if (o.limit < 0)
		return opt_wrong(&dump_help, "'--limit' cannot be negative");
	d.left = (uint64_t)o.limit;
	d.kinds = parse_kinds(o.kind);
	if (!d.kinds || !parse_span(&d, &o))
		return CMD_TROUBLE;
	d.symbols = symbols_new();
	d.e = emit_open(stdout, &o.emit, NULL);
	status = dump_recording(&d, argv[1]);
	stack_release(&d.stack);
	symbols_free(d.symbols);
	return emit_close(d.e) ? CMD_TROUBLE : status;
}
