/* SPDX-License-Identifier: MIT */
/* vramtrace peak: who held memory when most of it was held, or at another moment. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/holders/holders.h"
#include "analyzer/holders/spansfile.h"
#include "analyzer/pages/print_categories.h"
#include "analyzer/pages/print_holders.h"
#include "analyzer/pages/print_modules.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_ranges.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_spans.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/purpose/rules.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

#define TOP_USUAL INT64_MIN /* --top was not given */

static const char *const by_names[] = { "stack", "name", "category", "module", "block", "range", NULL };

struct peak_opts {
	const char *at;
	const char *spans;
	int by; /* index into by_names, -1: not given */
	int64_t depth;
	int64_t top;
	unsigned verbose; /* 1: whole stacks; 2: and all frames and paths as they are */
	struct emit_opts emit;
};

static const struct opt peak_optv[] = {
	OPT_STRING(0, "at", struct peak_opts, at, "TIME", "at TIME (12.5s, 300ms), oom, end; default: the peak"),
	OPT_ENUM(0, "by", struct peak_opts, by, by_names, "default stack; range: of NVTX"),
	OPT_STRING(0, "spans", struct peak_opts, spans, "FILE", "instead, the peak in each span of time that FILE lists"),
	OPT_INT(0, "depth", struct peak_opts, depth, "N", "of modules: how many deep, from the model (default 1)"),
	OPT_INT('n', "top", struct peak_opts, top, "N", "the N largest groups of each device (text: 10)"),
	OPT_COUNT('v', "verbose", struct peak_opts, verbose, "whole stacks; -vv: every frame, whole paths"),
	EMIT_OPTIONS(struct peak_opts, emit),
	OPT_END
};

static const struct opt_help peak_help = {
	.command = "peak",
	.purpose = "List who held memory at the peak, grouped by stack, name, category, module or range.",
	.usage = "[options] RECORDING",
	.example = "vramtrace peak train.vtr\n"
		   "vramtrace peak --at oom train.vtr\n"
		   "vramtrace peak --by name train.vtr\n"
		   "vramtrace peak --by category train.vtr\n"
		   "vramtrace peak --by module --depth 2 train.vtr\n"
		   "vramtrace peak --at 12.5s --top 3 -v train.vtr",
	.options = peak_optv,
};

/* The moment of a device that the user asked for. */
static enum group_mark mark_of(const struct replay_device *d, const char *at)
{
	if (!at)
		return d->has_tensors ? MARK_TENSOR_PEAK : MARK_DRIVER_PEAK;
	return !strcmp(at, "oom") ? MARK_OOM : !strcmp(at, "end") ? MARK_END : MARK_TIME;
}

static const char *mark_name(enum group_mark mark)
{
	static const char *const names[] = { "tensor_peak", "driver_peak", "oom", "time", "end" };

	return names[mark];
}

static uint64_t mark_time(const struct replay_device *d, enum group_mark mark)
{
	return mark == MARK_END ? d->process->last_ns
				: replay_time(d->process, d->books->moment[mark].time_ns);
}

static void device_text(struct emit *e, const struct replay *m, const struct replay_device *d,
			enum group_mark mark, const struct holders *h)
{
	static const char *const moments[] = { "at the peak", "at the peak", "when memory ran out", "then",
					      "at the end" };
	char title[256], size[HUMAN_MAX], time[HUMAN_MAX], share[HUMAN_MAX], capacity[HUMAN_MAX], zeros[ZERO_TEXT_MAX];
	uint64_t nr_zeros = replay_zero_answers(d->process);

	emit_heading(e, "%s", print_device_title(title, sizeof(title), m, d));
	human_bytes(size, h->total.bytes);
	if (d->capacity_bytes)
		emit_text(e, "%s%s (%s of %s) %s %s, after %s%s", print_at_least(d->process), size,
			  human_percent(share, (double)h->total.bytes, (double)d->capacity_bytes),
			  human_bytes(capacity, d->capacity_bytes),
			  d->has_tensors ? "held by tensors" : "taken from the driver", moments[mark],
			  human_ns(time, mark_time(d, mark)), nr_zeros ? ";" : "");
	else
		emit_text(e, "%s%s %s %s, after %s%s", print_at_least(d->process), size,
			  d->has_tensors ? "held by tensors" : "taken from the driver", moments[mark],
			  human_ns(time, mark_time(d, mark)), nr_zeros ? ";" : "");
	if (nr_zeros)
		emit_text(e, "%s", print_zeros(zeros, "", nr_zeros));
	emit_blank(e);
}

static void stacks_print(struct emit *e, const struct replay *m, const struct holders_query *q,
			 const struct holders *h, const struct print_holders_options *rows)
{
	print_holders_begin(e);
	print_holders_rows(e, m, q, h, rows);
	print_holders_end(e);
	if (rows->top && h->nr_holders > rows->top)
		emit_text(e, "(%" PRIu64 " more group%s: --top N)", h->nr_holders - rows->top,
			  h->nr_holders - rows->top == 1 ? "" : "s");
}

static void ranges_print(struct emit *e, const struct holders_query *q, const struct holders *h,
			 const struct print_holders_options *rows)
{
	struct print_ranges_query by_range = {
		.books = q->process->books,
		.device = q->device,
		.tensors = q->of == HOLDERS_TENSORS,
		.mark = q->mark,
		.total = h->total,
		.top = rows->top,
	};

	print_ranges(e, &by_range);
}

static bool is_by(const struct peak_opts *o, const char *what)
{
	return o->by >= 0 && !strcmp(by_names[o->by], what);
}

static void modules_print(struct emit *e, const struct holders_query *q, const struct categories *c,
			 const struct peak_opts *o, uint64_t total)
{
	struct modules m;

	modules_find(&m, c, q->process->modulepaths, (uint32_t)o->depth);
	print_modules(e, q->process, &m, total, (uint64_t)o->top);
	modules_release(&m);
}

/* By the names that the program has for its blocks. */
static void names_print(struct emit *e, const struct holders_query *q, const struct categories *c,
		       const struct peak_opts *o, uint64_t total)
{
	struct print_names_options rows = { .total = total, .top = (uint64_t)o->top, .verbose = o->verbose > 0 };
	struct namegroups g;

	namedblocks_find(&g, q->process, c, categories_moment(q->process, q->device, q->mark), total);
	print_names(e, q->process, &g, &rows);
	namegroups_release(&g);
}

/* By what blocks are for, by name, by module, or each block. */
static void categories_print(struct emit *e, const struct holders_query *q, const struct peak_opts *o, uint64_t total)
{
	enum lives_moment moment = categories_moment(q->process, q->device, q->mark);
	struct categories c;

	categories_find(&c, q->process, q->device, moment, total);
	if (is_by(o, "block"))
		print_blocks(e, q->process, &c, moment, (uint64_t)o->top);
	else if (is_by(o, "module"))
		modules_print(e, q, &c, o, total);
	else if (is_by(o, "name"))
		names_print(e, q, &c, o, total);
	else
		print_categories(e, &c);
	categories_release(&c);
}

static bool needs_lives(const struct peak_opts *o)
{
	return is_by(o, "category") || is_by(o, "module") || is_by(o, "block") || is_by(o, "name");
}

static void device_print(struct emit *e, const struct replay *m, const struct replay_device *d,
			const struct peak_opts *o)
{
	enum group_mark mark = mark_of(d, o->at);
	struct holders_query q = { d->process, d->ordinal, d->has_tensors ? HOLDERS_TENSORS : HOLDERS_DRIVER,
				   HOLDERS_BY_STACK, mark };
	struct print_holders_options rows = { .top = (uint64_t)o->top, .verbose = o->verbose > 0,
					       .tidy = o->verbose == 1 };
	struct holders h = HOLDERS_INIT;

	holders_find(&h, m, &q);
	emit_object_begin(e, NULL, NULL);
	print_device_identity(e, d);
	emit_string(e, "ledger", NULL, d->has_tensors ? "tensor" : "driver");
	emit_string(e, "moment", NULL, mark_name(mark));
	emit_uint(e, "time_ns", NULL, mark_time(d, mark));
	emit_uint(e, "bytes", NULL, h.total.bytes);
	emit_uint(e, "count", NULL, h.total.blocks);
	if (mark == MARK_OOM)
		emit_uint(e, "asked_bytes", NULL, d->books->oom_asked_bytes);
	else
		emit_null(e, "asked_bytes", NULL);
	device_text(e, m, d, mark, &h);
	if (is_by(o, "range"))
		ranges_print(e, &q, &h, &rows);
	else if (q.of == HOLDERS_TENSORS && needs_lives(o))
		categories_print(e, &q, o, h.total.bytes);
	else
		stacks_print(e, m, &q, &h, &rows);
	emit_blank(e);
	emit_object_end(e);
	holders_release(&h);
}

static bool device_is_wanted(const struct replay_device *d, const struct peak_opts *o)
{
	enum group_mark mark = mark_of(d, o->at);

	return mark == MARK_END || d->books->moment[mark].reached;
}

static int peak_print(const struct replay *m, const struct peak_opts *o)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/peak/1");
	size_t nr_shown = 0;

	print_recording(e, m);
	emit_array_begin(e, "devices", NULL);
	for (size_t i = 0; i < m->nr_devices; i++) {
		if (!device_is_wanted(&m->device[i], o))
			continue;
		device_print(e, m, &m->device[i], o);
		nr_shown++;
	}
	emit_array_end(e);
	if (!nr_shown)
		emit_text(e, "%s",
			  o->at && !strcmp(o->at, "oom") ? "Memory did not run out in this recording."
							 : "No GPU memory was allocated in this recording.");
	return emit_close(e);
}

/* Nothing is known of a time that a flight recorder has dropped, of any process. */
static int check_kept(const struct replay *m, uint64_t at_ns)
{
	char time[HUMAN_MAX];

	if (print_kept_from(m) <= (int64_t)at_ns)
		return CMD_FINE;
	return message_error("'%s' keeps nothing of that time: it begins at %" PRId64 "ns (%s)", m->recording.path,
			     print_kept_from(m), human_ns(time, (uint64_t)print_kept_from(m)));
}

/* --spans: the peaks of many spans, and nothing of who held them. */
static int peak_of_spans(const struct peak_opts *o, const char *path)
{
	struct spans spans = SPANS_INIT;
	struct replay_options load = { .observe = spans_observe, .ctx = &spans };
	struct replay m = REPLAY_INIT;
	int damaged = CMD_FINE, ret = spansfile_read(&spans, o->spans);

	if (!ret)
		ret = rules_load();
	if (!ret)
		ret = replay_load(&m, path, &load);
	if (!ret) {
		spans_finish(&spans);
		damaged = print_caveats(&m);
		ret = print_spans(&m, &spans, &o->emit);
	}
	spans_release(&spans);
	replay_release(&m);
	return ret == CMD_FINE ? damaged : ret;
}

int cmd_peak(int argc, const char **argv)
{
	struct peak_opts o = { .by = -1, .top = TOP_USUAL, .depth = 1 };
	struct replay_options load = { 0 };
	struct replay m = REPLAY_INIT;
	enum opt_result parsed = opt_parse(&peak_help, &argc, argv, &o);
	int ret, damaged = CMD_FINE;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 2)
		return opt_wrong(&peak_help, argc < 2 ? "missing RECORDING" : "unexpected argument '%s'",
				 argv[argc - 1]);
	if (o.spans && (o.at || o.by >= 0))
		return opt_wrong(&peak_help, "'--spans' goes with neither '--at' nor '--by': it names nobody");
	if (o.spans)
		return peak_of_spans(&o, argv[1]);
	if (o.depth < 1 || o.depth > 1000)
		return opt_wrong(&peak_help, "'--depth' is at least 1");
	load.lives = needs_lives(&o);
	load.names = true;
	load.modules = is_by(&o, "module") || is_by(&o, "block");
	if (o.at && strcmp(o.at, "oom") && strcmp(o.at, "end")) {
		load.has_at = true;
		if (!human_parse_time(o.at, &load.at_ns))
			return opt_wrong(&peak_help, "'%s' is not a moment: a time such as 12.5s, oom or end",
					 o.at);
	}
	if (o.top < 0 && o.top != TOP_USUAL)
		return opt_wrong(&peak_help, "'--top' cannot be negative");
	if (o.top < 0)
		o.top = o.emit.json || o.emit.csv ? 0 : 10;
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, argv[1], &load);
	if (!ret && load.has_at)
		ret = check_kept(&m, load.at_ns);
	if (!ret) {
		damaged = print_caveats(&m);
		ret = peak_print(&m, &o);
	}
	replay_release(&m);
	return ret == CMD_FINE ? damaged : ret;
}
