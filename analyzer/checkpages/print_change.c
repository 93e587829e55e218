/* SPDX-License-Identifier: MIT */
/* Stacks and parts before and after. */
#include "analyzer/checkpages/print_change.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/checkpages/print_ruling.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"
#include "analyzer/ui/print_wrapped.h"

#define CALLERS_WIDTH 63 /* so that their line has 80 columns */
#define PLACE_WIDTH 63
#define GROWN_PARTS_MAX 6 /* of a breakdown, by name */
#define WHAT_WIDTH 46    /* what the figures of a row leave */

void print_footprint_device(struct emit *e, const struct footprint_device *d)
{
	print_optional(e, "rank", d->rank);
	emit_uint(e, "process", NULL, d->process);
	emit_uint(e, "device", NULL, d->ordinal);
}

static void stack_json(struct emit *e, const char *key, const struct footprint_stack *s)
{
	if (!s) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_string(e, "file", NULL, *s->file ? s->file : NULL);
	if (s->line)
		emit_uint(e, "line", NULL, s->line);
	else
		emit_null(e, "line", NULL);
	emit_string(e, "function", NULL, s->function);
	emit_string(e, "node", NULL, *s->node ? s->node : NULL);
	emit_bool(e, "from_forward", NULL, s->from_forward);
	emit_string(e, "through", NULL, *s->through ? s->through : NULL);
	emit_string(e, "call", NULL, *s->call ? s->call : NULL);
	emit_array_begin(e, "callers", NULL);
	for (uint32_t i = 0; i < s->nr_callers; i++)
		emit_string(e, NULL, NULL, s->caller[i]);
	emit_array_end(e);
	emit_string(e, "shape", NULL, *s->shape ? s->shape : NULL);
	emit_string(e, "phase", NULL, *s->phase ? s->phase : NULL);
	emit_uint(e, "blocks", NULL, s->blocks);
	emit_uint(e, "bytes", NULL, s->bytes);
	if (s->named)
		json_name(e, s->named);
	else if (*s->name)
		emit_string(e, "name", NULL, s->name);
	emit_object_end(e);
}

/* What the blocks are, and were: that in a line of its own where the row has no room for it. */
static void what_label(struct emit *e, const struct compare_stack *s)
{
	char what[RULING_TEXT_MAX], was[RULING_TEXT_MAX];
	bool changed = s->before && s->after &&
		       strcmp(print_what(what, s->after), print_what(was, s->before));

	print_what(what, s->after ? s->after : s->before);
	if (!changed || strlen(what) + strlen(", was ") + strlen(was) > WHAT_WIDTH)
		emit_label(e, "what", NULL, "%s%s", what, s->after ? "" : ", gone");
	else
		emit_label(e, "what", NULL, "%s, was %s", what, was);
	if (changed && strlen(what) + strlen(", was ") + strlen(was) > WHAT_WIDTH)
		emit_text(e, "         was %s", was);
}

/* Where it was allocated; of a long path the file's name alone. */
static void place_line(struct emit *e, const struct footprint_stack *s, const char *place)
{
	const char *label = *s->node || !*s->file ? "" : "allocated at ", *name = strrchr(s->file, '/');
	char text[RULING_TEXT_MAX];

	if (!*s->node && name && strlen(place) > PLACE_WIDTH) {
		struct footprint_stack shown = *s;

		shown.file = name + 1;
		place = print_place(text, &shown);
	}
	if (strlen(label) + strlen(place) > strlen("allocated at ") + PLACE_WIDTH)
		emit_text(e, "%s%.*s...", label, (int)(strlen("allocated at ") + PLACE_WIDTH - 3 - strlen(label)), place);
	else
		emit_text(e, "%s%s", label, place);
}

/* What the program calls them, and who keeps them where that says more; of a baseline the name alone. */
static void name_line(struct emit *e, const struct footprint_stack *s)
{
	if (s->named)
		print_said(e, "", "  ", named_said(s->named));
	else if (*s->name)
		emit_text(e, "named %s", s->name);
}

static const struct emit_column grown_columns[] = {
	{ "grown_bytes", "grown", EMIT_RIGHT, false }, { "before_bytes", "before", EMIT_RIGHT, false },
	{ "after_bytes", "now", EMIT_RIGHT, false },   { "what", "what", EMIT_LEFT, true },
	{ "place", NULL, EMIT_LEFT, false },	       { NULL, NULL, EMIT_LEFT, false },
};
static const struct emit_column held_columns[] = {
	{ "after_bytes", "bytes", EMIT_RIGHT, false },
	{ "what", "what", EMIT_LEFT, true },
	{ "place", NULL, EMIT_LEFT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

static void change_row(struct emit *e, const struct compare_stack *s, bool is_growth)
{
	const struct footprint_stack *now = s->after ? s->after : s->before;
	char text[RULING_TEXT_MAX], size[HUMAN_MAX];

	emit_row_begin(e);
	if (emit_is_text(e) && !emit_is_raw(e))
		emit_label(e, "grown_bytes", NULL, "%s", human_bytes_delta(size, s->grown_bytes));
	else
		emit_int(e, "grown_bytes", NULL, s->grown_bytes);
	if (is_growth)
		emit_bytes(e, "before_bytes", NULL, s->before ? s->before->bytes : 0);
	else
		emit_null(e, "before_bytes", NULL);
	emit_bytes(e, "after_bytes", NULL, s->after ? s->after->bytes : 0);
	what_label(e, s);
	emit_string(e, "place", NULL, print_place(text, now));
	stack_json(e, "before", s->before);
	stack_json(e, "after", s->after);
	place_line(e, now, text);
	if (now->nr_callers)
		emit_text(e, "          by %s", print_callers(text, now, CALLERS_WIDTH));
	name_line(e, now);
	emit_row_end(e);
}

void print_changes(struct emit *e, const char *key, const struct compare_stack *row, uint32_t nr, bool is_growth)
{
	if (!nr && emit_is_text(e))
		return;
	emit_table_begin(e, key, is_growth ? grown_columns : held_columns);
	for (uint32_t i = 0; i < nr; i++)
		change_row(e, &row[i], is_growth);
	emit_table_end(e);
}

/* The parts of a breakdown that grew: those that grew most, and what the others grew by. */
struct grown_parts {
	const struct compare_part *largest[GROWN_PARTS_MAX];
	uint32_t nr_largest, nr_others;
	uint64_t others_bytes;
};

static uint64_t growth_of(const struct compare_part *p)
{
	return p->after > p->before ? p->after - p->before : 0;
}

/* Put a part where it belongs; the last of a full list becomes one of the others. */
static void grown_parts_add(struct grown_parts *g, const struct compare_part *part)
{
	uint32_t i;

	if (g->nr_largest == GROWN_PARTS_MAX) {
		const struct compare_part *last = g->largest[GROWN_PARTS_MAX - 1];
		bool stays = growth_of(last) >= growth_of(part);

		g->nr_others++;
		g->others_bytes += growth_of(stays ? part : last);
		if (stays)
			return;
		g->nr_largest--;
	}
	for (i = g->nr_largest++; i && growth_of(g->largest[i - 1]) < growth_of(part); i--)
		g->largest[i] = g->largest[i - 1];
	g->largest[i] = part;
}

static void grown_line(struct emit *e, const char *breakdown, const struct grown_parts *g)
{
	char size[HUMAN_MAX], line[1024] = "", lead[32];
	size_t n = 0;

	for (uint32_t i = 0; i < g->nr_largest; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%.100s %s", i ? ", " : "", g->largest[i]->name,
				      human_bytes_delta(size, (int64_t)growth_of(g->largest[i])));
	if (g->nr_others)
		snprintf(line + n, sizeof(line) - n, ", %" PRIu32 " others %s", g->nr_others,
			 human_bytes_delta(size, (int64_t)g->others_bytes));
	snprintf(lead, sizeof(lead), "by %s: ", breakdown);
	print_wrapped(e, lead, "    ", line);
}

void print_grown_parts(struct emit *e, const struct compare_device *d)
{
	for (int by = 0; by < NR_BREAKDOWNS; by++) {
		struct grown_parts g = { 0 };

		for (uint32_t i = 0; i < d->nr_parts[by]; i++)
			if (growth_of(&d->part[by][i]))
				grown_parts_add(&g, &d->part[by][i]);
		if (g.nr_largest)
			grown_line(e, footprint_breakdowns[by], &g);
	}
}
