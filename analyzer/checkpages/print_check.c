/* SPDX-License-Identifier: MIT */
/* What `check` found, as text and JSON. */
#include "analyzer/checkpages/print_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/checkpages/print_change.h"
#include "analyzer/checkpages/print_ruling.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/recording/basename.h"

#define PAGE_WIDTH 80
#define LINE_WIDTH 73  /* of what stands below a row, after "by" */
#define GAPS 12        /* between the columns of the table of limits */
#define VERDICT_WIDTH 7
#define PATH_WIDTH 36  /* of a baseline, in a heading */
#define AMOUNT_WIDTH 7 /* of a column's head, at least */

const char *const check_formats[] = { "text", "json", "junit", "github", "markdown", NULL };

static const struct emit_column ruling_columns[] = {
	{ "verdict", "verdict", EMIT_LEFT, true },  { "gpu", "GPU", EMIT_LEFT, true },
	{ "what", "what", EMIT_LEFT, true },	    { "took", "took", EMIT_RIGHT, true },
	{ "most", "allowed", EMIT_RIGHT, true },    { "over", "over", EMIT_RIGHT, true },
	{ "from", "by", EMIT_LEFT, true },	    { NULL, NULL, EMIT_LEFT, false },
};

static void amount_json(struct emit *e, const char *key, const struct ruling *r, uint64_t amount)
{
	if (r->unit == UNIT_HUNDREDTHS)
		emit_double(e, key, NULL, (double)amount / 100);
	else
		emit_uint(e, key, NULL, amount);
}

/* What the other columns leave of a line for the last one. */
static int origin_width(const struct emit *e, const struct rulings *all)
{
	int gpu = 3, what = 4, took = 4, allowed = AMOUNT_WIDTH, over = 4;
	char text[RULING_TEXT_MAX];

	for (size_t i = 0; i < all->nr_rulings; i++) {
		const struct ruling *r = &all->ruling[i];

		gpu = emit_wider(gpu, footprint_device_name(text, sizeof(text), r->device));
		what = emit_wider(what, r->of);
		took = emit_wider(took, print_amount(text, r, r->actual, emit_is_raw(e)));
		allowed = emit_wider(allowed, print_amount(text, r, r->allowed, emit_is_raw(e)));
		over = emit_wider(over, print_excess(text, r, emit_is_raw(e)));
	}
	return PAGE_WIDTH - GAPS - VERDICT_WIDTH - gpu - what - took - allowed - over;
}

/* By which option or file: of a file the name, and in a line of its own what the row has no room for. */
static void origin_label(struct emit *e, const struct ruling *r, int width)
{
	const char *name = basename_of(r->origin);

	if ((int)strlen(r->origin) <= width)
		name = r->origin;
	if ((int)strlen(name) <= width) {
		emit_label(e, "from", NULL, "%s", name);
		return;
	}
	emit_label(e, "from", NULL, "%s", "");
	if (strlen(print_short_path(r->origin)) <= LINE_WIDTH)
		name = print_short_path(r->origin);
	emit_text(e, "by %s", name);
}

static void ruling_row(struct emit *e, const struct ruling *r, int width)
{
	static const char *const units[] = { "bytes", "percent", "count" };
	char text[RULING_TEXT_MAX];

	emit_row_begin(e);
	emit_label(e, "verdict", NULL, "%s", r->is_broken ? "BROKEN" : "kept");
	emit_label(e, "gpu", NULL, "%s", footprint_device_name(text, sizeof(text), r->device));
	emit_label(e, "what", NULL, "%s", r->of);
	emit_label(e, "took", NULL, "%s", print_amount(text, r, r->actual, emit_is_raw(e)));
	emit_label(e, "most", NULL, "%s", print_amount(text, r, r->allowed, emit_is_raw(e)));
	emit_label(e, "over", NULL, "%s", print_excess(text, r, emit_is_raw(e)));
	origin_label(e, r, width);
	emit_string(e, "limit", NULL, r->limit);
	emit_string(e, "of", NULL, r->of);
	emit_string(e, "origin", NULL, r->origin);
	print_footprint_device(e, r->device);
	emit_string(e, "unit", NULL, units[r->unit]);
	amount_json(e, "actual", r, r->actual);
	amount_json(e, "allowed", r, r->allowed);
	if (r->has_before)
		amount_json(e, "before", r, r->before);
	else
		emit_null(e, "before", NULL);
	emit_bool(e, "broken", NULL, r->is_broken);
	emit_bool(e, "exact", NULL, r->device->exact);
	emit_row_end(e);
}

/* The baseline's path, where a heading has room for it. */
static const char *baseline_name(const struct footprint *baseline)
{
	return strlen(baseline->path) <= PATH_WIDTH ? baseline->path : "the baseline";
}

/* Where the memory of a device with a broken limit went. */
static void blame_print(struct emit *e, const struct check_page *page, const struct footprint_device *d)
{
	const struct rulings *all = page->rulings;
	bool is_growth = rulings_blame_kind(all, d) == BLAME_GREW;
	uint32_t nr = page->top;
	struct compare_stack *row = rulings_blame(all, d, &nr);
	char title[RULING_TEXT_MAX];

	print_blame_title(title, all, d);
	emit_object_begin(e, NULL, NULL);
	print_footprint_device(e, d);
	emit_bool(e, "grown", NULL, is_growth);
	emit_bool(e, "each_step", NULL, rulings_blame_kind(all, d) == BLAME_LEAVES);
	emit_blank(e);
	if (!is_growth)
		emit_heading(e, "%s", title);
	else if (nr)
		emit_heading(e, "%s since %s", title, baseline_name(page->query->baseline));
	else
		emit_text(e, "no stack grew since %s", baseline_name(page->query->baseline));
	print_changes(e, "stacks", row, nr, is_growth);
	if (is_growth)
		print_grown_parts(e, compare_of(&all->compare, d));
	emit_object_end(e);
	free(row);
}

static void rulings_print(struct emit *e, const struct rulings *all)
{
	int width = origin_width(e, all);

	if (!all->nr_rulings && emit_is_text(e))
		return;
	emit_blank(e);
	emit_table_begin(e, "rulings", ruling_columns);
	for (size_t i = 0; i < all->nr_rulings; i++)
		ruling_row(e, &all->ruling[i], width);
	emit_table_end(e);
}

static void facts_json(struct emit *e, const struct rulings *all)
{
	emit_array_begin(e, "differences", NULL);
	for (uint32_t i = 0; i < all->compare.nr_facts; i++) {
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "what", NULL, all->compare.fact[i].what);
		emit_string(e, "before", NULL, all->compare.fact[i].before);
		emit_string(e, "after", NULL, all->compare.fact[i].after);
		emit_object_end(e);
	}
	emit_array_end(e);
}

int print_check(struct emit *e, const struct check_page *page)
{
	const struct rulings *all = page->rulings;
	const struct footprint *now = page->query->now;
	char text[RULING_TEXT_MAX];

	print_recording(e, page->replay);
	emit_string(e, "verdict", NULL, rulings_status_names[all->status]);
	emit_string(e, "reason", NULL, *all->reason ? all->reason : NULL);
	emit_heading(e, "%s", print_rulings_line(text, all, page->replay->recording.path));
	if (all->status == RULINGS_BROKEN && *all->reason)
		emit_text(e, "the rest could not be told: %s", all->reason);
	emit_string(e, "baseline", NULL, page->query->baseline ? page->query->baseline->path : NULL);
	facts_json(e, all);
	rulings_print(e, all);
	emit_array_begin(e, "blame", NULL);
	for (uint32_t i = 0; i < now->nr_devices; i++)
		if (rulings_is_broken(all, &now->device[i]))
			blame_print(e, page, &now->device[i]);
	emit_array_end(e);
	return emit_close(e);
}
