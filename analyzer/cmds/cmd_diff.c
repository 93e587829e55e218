/* SPDX-License-Identifier: MIT */
/* vramtrace diff: what grew from one recording or baseline to another. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/checkpages/print_change.h"
#include "analyzer/checkpages/print_ruling.h"
#include "analyzer/command.h"
#include "analyzer/gate/compare.h"
#include "analyzer/gate/limits.h"
#include "analyzer/pages/subject.h"
#include "analyzer/ui/emit.h"
#include "analyzer/ui/options.h"

#define DIFF_SCHEMA "vramtrace/diff/1"

/* Breakdowns as `--by` names them, and then the stacks. */
static const char *const by_names[] = { "all", "stack", "phase", "library", "category", "module", NULL };
enum { BY_ALL, BY_STACK, BY_FIRST };

struct diff_opts {
	const char *tolerance;
	int by;
	int64_t top;
	bool exit_code;
	struct emit_opts emit;
};

static const struct opt diff_optv[] = {
	OPT_ENUM(0, "by", struct diff_opts, by, by_names, "compare what was held by; default all"),
	OPT_STRING(0, "tolerance", struct diff_opts, tolerance, "PCT|SIZE", "hide smaller differences: 2%, 64MiB"),
	OPT_INT('n', "top", struct diff_opts, top, "N", "the N stacks that differ most (text: 10)"),
	OPT_FLAG(0, "exit-code", struct diff_opts, exit_code, "exit with 1 when a difference is shown"),
	EMIT_OPTIONS(struct diff_opts, emit),
	OPT_END
};

static const struct opt_help diff_help = {
	.command = "diff",
	.purpose = "List what grew and shrank from one recording or baseline to another.",
	.usage = "[options] BEFORE AFTER",
	.example = "vramtrace diff before.vtr after.vtr\n"
		   "vramtrace diff --exit-code --tolerance 1% memory-baseline.toml train.vtr",
	.options = diff_optv,
};

struct diff {
	const struct compare *compare;
	const struct diff_opts *opts;
	struct tolerance tolerance;
	uint64_t nr_shown;
};

static const struct emit_column figure_columns[] = {
	{ "what", "peaks", EMIT_LEFT, false },	       { "before_bytes", "before", EMIT_RIGHT, false },
	{ "after_bytes", "after", EMIT_RIGHT, false }, { "grown_bytes", "grown", EMIT_RIGHT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

/* More than the tolerance, of `of` bytes? */
static bool is_beyond(const struct diff *d, int64_t grown, uint64_t of)
{
	uint64_t by = grown < 0 ? -(uint64_t)grown : (uint64_t)grown;

	return by > tolerance_of(&d->tolerance, of);
}

static void row(struct emit *e, const char *what, uint64_t before, uint64_t after)
{
	int64_t grown = (int64_t)(after - before);
	char size[HUMAN_MAX];

	emit_row_begin(e);
	emit_string(e, "what", NULL, what);
	emit_bytes(e, "before_bytes", NULL, before);
	emit_bytes(e, "after_bytes", NULL, after);
	if (emit_is_text(e) && !emit_is_raw(e))
		emit_label(e, "grown_bytes", NULL, "%s", human_bytes_delta(size, grown));
	else
		emit_int(e, "grown_bytes", NULL, grown);
	emit_row_end(e);
}

/* All figures are shown, but count only beyond the tolerance. */
static void print_figures(struct emit *e, struct diff *d, const struct compare_device *c)
{
	emit_table_begin(e, "figures", figure_columns);
	for (int i = 0; i < NR_FIGURES; i++) {
		uint64_t before = c->before->figure[i], after = c->after->figure[i];

		row(e, emit_is_text(e) ? footprint_figures[i].title : footprint_figures[i].key, before, after);
		d->nr_shown += is_beyond(d, (int64_t)(after - before), before);
	}
	emit_table_end(e);
}

/* A breakdown's parts that differ; the tolerance is of the whole. */
static void print_parts(struct emit *e, struct diff *d, const struct compare_device *c, enum footprint_by by)
{
	struct emit_column columns[sizeof(figure_columns) / sizeof(*figure_columns)];
	uint32_t nr = 0;

	memcpy(columns, figure_columns, sizeof(columns));
	columns[0].head = footprint_breakdowns[by];
	for (uint32_t i = 0; i < c->nr_parts[by]; i++)
		nr += is_beyond(d, (int64_t)(c->part[by][i].after - c->part[by][i].before), c->before->figure[FIGURE_PEAK]);
	if (!nr && emit_is_text(e))
		return;
	emit_blank(e);
	emit_table_begin(e, footprint_breakdowns[by], columns);
	for (uint32_t i = 0; i < c->nr_parts[by]; i++) {
		const struct compare_part *p = &c->part[by][i];

		if (is_beyond(d, (int64_t)(p->after - p->before), c->before->figure[FIGURE_PEAK]))
			row(e, p->name, p->before, p->after);
	}
	emit_table_end(e);
	d->nr_shown += nr;
}

/* By how much, up or down. */
static int by_difference(const void *va, const void *vb)
{
	const struct compare_stack *a = va, *b = vb;
	uint64_t x = a->grown_bytes < 0 ? -(uint64_t)a->grown_bytes : (uint64_t)a->grown_bytes;
	uint64_t y = b->grown_bytes < 0 ? -(uint64_t)b->grown_bytes : (uint64_t)b->grown_bytes;

	if (x != y)
		return x < y ? 1 : -1;
	return footprint_compare_stacks(a->after ? a->after : a->before, b->after ? b->after : b->before);
}

static void print_stacks(struct emit *e, struct diff *d, const struct compare_device *c)
{
	struct compare_stack *shown = heap_alloc(c->nr_stacks, sizeof(*shown));
	uint64_t top = (uint64_t)d->opts->top;
	uint32_t nr = 0;
	char size[HUMAN_MAX];

	for (uint32_t i = 0; i < c->nr_stacks; i++)
		if (c->stack[i].grown_bytes && is_beyond(d, c->stack[i].grown_bytes, c->before->figure[FIGURE_PEAK]))
			shown[nr++] = c->stack[i];
	if (nr) {
		qsort(shown, nr, sizeof(*shown), by_difference);
		emit_blank(e);
	}
	print_changes(e, "stacks", shown, top && nr > top ? (uint32_t)top : nr, true);
	if (top && nr > top)
		emit_text(e, "(%" PRIu64 " more stacks: --top N)", nr - top);
	if (c->left_out_grown_bytes)
		emit_text(e, "stacks too small for the baseline: %s", human_bytes_delta(size, c->left_out_grown_bytes));
	emit_int(e, "left_out_grown_bytes", NULL, c->left_out_grown_bytes);
	d->nr_shown += nr;
	free(shown);
}

static void print_device(struct emit *e, struct diff *d, const struct compare_device *c)
{
	int by = d->opts->by;
	char name[64];

	emit_object_begin(e, NULL, NULL);
	print_footprint_device(e, c->after);
	emit_heading(e, "%s, %s", footprint_device_name(name, sizeof(name), c->after), c->after->name);
	print_figures(e, d, c);
	for (int i = 0; i < NR_BREAKDOWNS; i++) {
		if (by == BY_ALL || by == BY_FIRST + i)
			print_parts(e, d, c, (enum footprint_by)i);
		else
			emit_null(e, footprint_breakdowns[i], NULL);
	}
	if (by == BY_ALL || by == BY_STACK) {
		print_stacks(e, d, c);
	} else {
		emit_null(e, "stacks", NULL);
		emit_null(e, "left_out_grown_bytes", NULL);
	}
	emit_blank(e);
	emit_object_end(e);
}

static int diff_print(struct diff *d, const struct footprint *before, const struct footprint *after)
{
	struct emit *e = emit_open(stdout, &d->opts->emit, DIFF_SCHEMA);
	const struct compare *c = d->compare;

	emit_string(e, "before", NULL, before->path);
	emit_string(e, "after", NULL, after->path);
	emit_array_begin(e, "differences", NULL);
	for (uint32_t i = 0; i < c->nr_facts; i++) {
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "what", NULL, c->fact[i].what);
		emit_string(e, "before", NULL, c->fact[i].before);
		emit_string(e, "after", NULL, c->fact[i].after);
		emit_object_end(e);
		emit_text(e, "%s: %s before, %s after", c->fact[i].what, c->fact[i].before, c->fact[i].after);
	}
	emit_array_end(e);
	if (c->nr_facts)
		emit_blank(e);
	emit_array_begin(e, "devices", NULL);
	for (uint32_t i = 0; i < c->nr_devices; i++)
		print_device(e, d, &c->device[i]);
	emit_array_end(e);
	if (!c->nr_devices)
		emit_text(e, "No GPU was used in both.");
	d->nr_shown += c->nr_facts;
	return emit_close(e);
}

static int diff_paths(struct diff *d, const char *before, const char *after)
{
	struct subject a = SUBJECT_INIT, b = SUBJECT_INIT;
	struct compare c = COMPARE_INIT;
	int ret = subject_load(&a, before, true, false);

	ret = ret ? ret : subject_load(&b, after, true, false);
	d->compare = &c;
	if (!ret) {
		compare_footprints(&c, &a.footprint, &b.footprint);
		ret = diff_print(d, &a.footprint, &b.footprint);
	}
	if (!ret && (a.is_damaged || b.is_damaged))
		ret = CMD_TROUBLE;
	compare_release(&c);
	subject_release(&a);
	subject_release(&b);
	return ret;
}

int cmd_diff(int argc, const char **argv)
{
	struct diff_opts o = { .top = -1 };
	enum opt_result parsed = opt_parse(&diff_help, &argc, argv, &o);
	struct diff d = { .opts = &o };
	char why[256];
	int ret;

	if (parsed != OPT_OK)
		return opt_status(parsed);
	if (argc != 3)
		return opt_wrong(&diff_help, argc < 3 ? "two recordings or baselines are needed" : "unexpected argument '%s'",
				 argv[argc - 1]);
	if (o.tolerance && !limits_parse_tolerance(o.tolerance, &d.tolerance, why, sizeof(why)))
		return opt_wrong(&diff_help, "'--tolerance': %s", why);
	if (o.top < 0)
		o.top = o.emit.json || o.emit.csv ? 0 : 10;
	ret = diff_paths(&d, argv[1], argv[2]);
	return !ret && o.exit_code && d.nr_shown ? CMD_FINDING : ret;
}
