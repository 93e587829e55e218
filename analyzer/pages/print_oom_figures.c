/* SPDX-License-Identifier: MIT */
/* The figures of a message about memory that ran out, on a page and in JSON. */
#include "analyzer/pages/print_oom_figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyzer/base/human.h"
#include "analyzer/pages/print_recording.h"

#define FIGURES_MAX 9
#define INDENT 2

struct labelled {
	const char *label; /* indented by INDENT */
	struct oom_figure figure;
};

static const char *const unit_names[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };

double print_oom_in_unit(double bytes, int unit)
{
	double value = bytes / (double)(UINT64_C(1) << 10 * unit);

	return fabs(value) < 0.005 ? 0 : value; /* never "-0.00" */
}

const char *print_oom_figure(char buf[static 32], struct oom_figure f)
{
	if (!f.unit && f.bytes >= 1024 && f.bytes < 1e18)
		return human_bytes(buf, (uint64_t)f.bytes);
	snprintf(buf, 32, "%.*f %s", f.unit ? 2 : 0, print_oom_in_unit(f.bytes, f.unit), unit_names[f.unit]);
	return buf;
}

const char *print_oom_range(char buf[static 64], struct oom_figure f)
{
	double low = f.bytes - f.slack, high = f.bytes + f.slack;

	snprintf(buf, 64, "%.*f to %.*f %s", f.unit ? 2 : 0,
		 print_oom_in_unit(low < 0 && f.bytes >= 0 ? 0 : low, f.unit), f.unit ? 2 : 0,
		 print_oom_in_unit(high, f.unit), unit_names[f.unit]);
	return buf;
}

/* Those that are known. Returns how many. */
static size_t find_figures(struct labelled out[static FIGURES_MAX], const struct oom_message *m,
			   const struct oom_story *s)
{
	const struct oom_figure none = { 0 };
	const struct labelled all[FIGURES_MAX] = {
		{ "  asked", s->requested },
		{ "  short by", s->lacking.bytes > 0 ? s->lacking : none },
		{ "  capacity", m->capacity },
		{ "  free", s->free },
		{ "  reserved", s->reserved },
		{ "  allocated", s->allocated },
		{ "  cached, unused", s->unused },
		{ "  outside PyTorch", s->outside },
		{ "  allowed", s->is_no_limit ? none : m->allowed },
	};
	size_t nr = 0;

	for (size_t i = 0; i < FIGURES_MAX; i++)
		if (all[i].figure.known)
			out[nr++] = all[i];
	return nr;
}

unsigned print_oom_figures(struct emit *e, const struct oom_message *m, const struct oom_story *s, unsigned columns)
{
	struct labelled of[FIGURES_MAX];
	size_t nr = find_figures(of, m, s), lines = (nr + columns - 1) / columns;
	char left[32], right[32];

	if (!nr || !e)
		return (unsigned)(nr ? lines + 1 : 0);
	emit_blank(e);
	for (size_t i = 0; i < lines; i++) {
		size_t k = i + lines;

		print_oom_figure(left, of[i].figure);
		if (k < nr)
			emit_text(e, "%-17s  %11s    %-15s  %11s", of[i].label, left, of[k].label + INDENT,
				  print_oom_figure(right, of[k].figure));
		else if (columns > 1)
			emit_text(e, "%-17s  %11s", of[i].label, left);
		else
			emit_label(e, NULL, of[i].label, "%11s", left);
	}
	return (unsigned)lines + 1;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_json_figure(struct emit *e, const char *key, struct oom_figure f)
{
	if (!f.known) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_double(e, "bytes", NULL, nearbyint(f.bytes));
	emit_double(e, "low", NULL, nearbyint(f.bytes - f.slack));
	emit_double(e, "high", NULL, nearbyint(f.bytes + f.slack));
	emit_object_end(e);
}

/* "missing": what each figure that the text lacks would decide, from the least that it can be. */
static void print_json_missing(struct emit *e, const struct oom_story *s)
{
	emit_array_begin(e, "missing", NULL);
	for (size_t i = 0; i < s->nr_missing; i++) {
		const struct oom_missing *missing = &s->missing[i];

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "figure", NULL, missing->figure);
		emit_array_begin(e, "decides", NULL);
		for (size_t k = 0; k < missing->nr_outcomes; k++) {
			emit_object_begin(e, NULL, NULL);
			emit_double(e, "from_bytes", NULL, nearbyint(missing->outcome[k].from_bytes));
			emit_string(e, "verdict", NULL, verdict_name(missing->outcome[k].verdict));
			emit_object_end(e);
		}
		emit_array_end(e);
		emit_object_end(e);
	}
	emit_array_end(e);
}

void print_oom_message(struct emit *e, const struct oom_message *m, const struct oom_story *s)
{
	static const char *const wordings[] = { "fields", "sentences", "async", "cut", "oversize",
						"driver", "library",   "host",  "mps", "not_pytorch" };

	emit_string(e, "wording", NULL, wordings[m->wording]);
	emit_string(e, "backend", NULL, *m->backend ? m->backend : NULL);
	print_optional(e, "rank", m->rank);
	print_optional(e, "device", m->device);
	emit_uint(e, "count", NULL, m->count);
	print_json_figure(e, "requested", m->requested);
	print_json_figure(e, "capacity", m->capacity);
	print_json_figure(e, "free", m->free);
	print_json_figure(e, "allocated", m->allocated);
	print_json_figure(e, "reserved", s->reserved);
	print_json_figure(e, "private_pools", m->private_pools);
	print_json_figure(e, "allowed", m->allowed);
	print_json_figure(e, "process", m->own);
	emit_array_begin(e, "processes", NULL);
	for (size_t i = 0; i < m->nr_processes; i++) {
		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "pid", NULL, m->process[i].pid);
		print_json_figure(e, "used", m->process[i].used);
		emit_bool(e, "is_this_one", NULL, &m->process[i] == s->self);
		emit_object_end(e);
	}
	emit_array_end(e);
	print_json_figure(e, "lacking", s->lacking);
	print_json_figure(e, "unused", s->unused);
	emit_double(e, "unused_share", NULL, s->unused_share);
	print_json_figure(e, "outside", s->outside);
	print_json_figure(e, "others", s->others);
	emit_double(e, "largest_fit_bytes", NULL, nearbyint(s->largest_fit));
	print_json_missing(e, s);
}
