/* SPDX-License-Identifier: MIT */
/* A series of readings and its growth, in words; see print_growth.h. */
#include "analyzer/pages/print_growth.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/growth/pace.h"
#include "analyzer/findings/verdict.h"
#include "analyzer/pages/print_said.h"

/* ---- limits ---------------------------------------------------------------------------------- */

bool growth_limits_parse_warning(struct growth_limits *l, const char *text)
{
	const char *slash = strchr(text, '/');
	char amount[32], *end;
	uint64_t bytes;

	if (!slash || slash == text || (size_t)(slash - text) >= sizeof(amount))
		return false;
	memcpy(amount, text, (size_t)(slash - text));
	amount[slash - text] = 0;
	l->warn_steps = strtod(slash + 1, &end);
	if (end == slash + 1)
		l->warn_steps = 1;
	if (!(l->warn_steps >= 1) || !(l->warn_steps < 1e15) ||
	    (strcmp(end, "steps") && strcmp(end, "step") && *end))
		return false;
	l->warn_share = l->warn_bytes = 0;
	if (amount[strlen(amount) - 1] == '%') {
		l->warn_share = strtod(amount, &end) / 100;
		return !strcmp(end, "%") && l->warn_share > 0 && l->warn_share < 1e6;
	}
	/* "5/10steps" is more likely meant in percent than in bytes. */
	if (!isalpha((unsigned char)amount[strlen(amount) - 1]) || !human_parse_bytes(amount, &bytes) || !bytes)
		return false;
	l->warn_bytes = (double)bytes;
	return true;
}

double growth_limits_bytes(const struct growth_limits *l)
{
	return l->capacity_bytes ? (double)l->capacity_bytes - (double)l->context_bytes : NAN;
}

static bool grows(const struct growth *g)
{
	return g->shape >= GROWTH_STEADY;
}

static double growth_so_far(const struct growth *g, const struct seriestext *s)
{
	return s->reading[s->nr - 1].bytes - s->reading[g->nr_warm_up].bytes;
}

static double largest_reading(const struct seriestext *s)
{
	double largest = 0;

	for (size_t i = 0; i < s->nr; i++)
		largest = fmax(largest, s->reading[i].bytes);
	return largest;
}

bool growth_is_finding(const struct growth *g, const struct seriestext *s, const struct growth_limits *l)
{
	double left = growth_limits_bytes(l) - s->reading[s->nr - 1].bytes;

	if (!grows(g))
		return false;
	if (!isnan(left) && g->slope * l->horizon_steps >= left)
		return true;
	return growth_so_far(g, s) > 0.01 * largest_reading(s);
}

bool growth_is_warned(const struct growth *g, const struct seriestext *s, const struct growth_limits *l)
{
	double growth = g->slope * l->warn_steps;

	if (!grows(g) || !(l->warn_steps > 0))
		return false;
	if (l->warn_bytes > 0)
		return growth > l->warn_bytes;
	return growth > l->warn_share * s->reading[g->nr_warm_up].bytes;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Sizes in the log's own kind of unit: of 1000 where it wrote GB, else of 1024. */
static const char *size(char buf[static HUMAN_MAX], const struct seriestext *s, double bytes, int digits)
{
	static const char *const binary[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	static const char *const decimal[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	double value = bytes, base = s->is_decimal ? 1000 : 1024;
	int unit = 0, decimals;

	while (unit < 6 && fabs(value) >= base * 0.9995) {
		value /= base;
		unit++;
	}
	decimals = fabs(value) < 10 ? digits - 1 : fabs(value) < 100 ? digits - 2 : digits - 3;
	snprintf(buf, HUMAN_MAX, "%.*f %s", unit && decimals > 0 ? decimals : 0, value,
		 (s->is_decimal ? decimal : binary)[unit]);
	return buf;
}

static const char *step_text(char buf[static HUMAN_MAX], double step)
{
	if (isinf(step))
		snprintf(buf, HUMAN_MAX, "never");
	else if (step >= 1e15)
		snprintf(buf, HUMAN_MAX, "%.3g", step);
	else
		snprintf(buf, HUMAN_MAX, "%.0f", step);
	return buf;
}

/* Bytes in the log's own kind of unit; more than a number of bytes can be, as text alone. */
static struct fact fact_size(const char *key, const struct seriestext *s, double bytes, int digits)
{
	char text[HUMAN_MAX];

	size(text, s, bytes, digits);
	return fabs(bytes) < 0x1p63 ? fact_as(fact_signed_bytes(key, llround(bytes)), text) : fact_name(key, text);
}

/* A step that was read, which may have any number. */
static struct fact fact_whole(const char *key, double number)
{
	char text[FACT_TEXT_MAX];

	snprintf(text, sizeof(text), "%.0f", number);
	return fact_name(key, text);
}

/* A step that may lie far away, or never come. */
static struct fact fact_at(const char *key, double step)
{
	char text[HUMAN_MAX];

	return fact_name(key, step_text(text, step));
}

static size_t slopes_between(const struct growth *g, const struct seriestext *s, double value[static PACE_PARTS])
{
	return pace_parts(s->reading + g->nr_warm_up, g->nr_used, value);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_slopes(struct emit *e, const struct growth *g, const struct seriestext *s)
{
	double value[PACE_PARTS], largest = 0, base = s->is_decimal ? 1000 : 1024, scale = 1;
	static const char *const units[][2] = {
		{ "B", "B" }, { "KiB", "kB" }, { "MiB", "MB" }, { "GiB", "GB" }, { "TiB", "TB" }
	};
	size_t nr = slopes_between(g, s, value), n = 0;
	char list[256] = "";
	int unit = 0;

	for (size_t i = 0; i < nr; i++)
		largest = fmax(largest, fabs(value[i]));
	for (; unit < 4 && largest >= base * scale; unit++)
		scale *= base;
	for (size_t i = 0; i < nr && n < sizeof(list) - 16; i++) {
		double v = value[i] / scale;

		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%.*f", i ? ", " : "",
				      fabs(v) < 9.95 && fabs(v - round(v)) > 0.005 ? 1 : 0, v);
	}
	if (nr)
		print_said(e, "", "  ", SAID(series_paces, fact_flag("in_parts", g->nr_used > PACE_PARTS + 1), fact_name("paces", list),
					   fact_name("unit", units[unit][s->is_decimal]),
					   fact_name("course", growth_shape_names[g->shape])));
}

static void print_growth_line(struct emit *e, const struct growth *g, const struct seriestext *s)
{
	const struct growth_reading *first = &s->reading[g->nr_warm_up], *last = &s->reading[s->nr - 1];
	double by = last->bytes - first->bytes;
	char text[HUMAN_MAX], with_sign[HUMAN_MAX + 1];

	snprintf(with_sign, sizeof(with_sign), "%s%s", by > 0 ? "+" : "", size(text, s, by, 2));
	print_said_heading(e, SAID(series_growth, fact_as(fact_size("change", s, by, 2), with_sign),
				   fact_whole("steps", last->step - first->step)));
}

static void print_forecast(struct emit *e, const struct growth_fit *f, const struct seriestext *s,
			   const char *label, bool is_believed)
{
	char at[HUMAN_MAX], padded[HUMAN_MAX + 8];

	if (!f->is_known || isnan(f->limit_step))
		return;
	snprintf(padded, sizeof(padded), "%-8s", step_text(at, f->limit_step));
	print_said_label(e, label, SAID(series_runs_out, fact_name("at", padded), fact_at("low", f->limit_step_low),
					fact_at("high", f->limit_step_high), fact_size("off", s, f->error_bytes, 2),
					fact_flag("is_believed", is_believed)));
}

static void print_why(struct emit *e, const struct growth *g)
{
	char quadratic[HUMAN_MAX], linear[HUMAN_MAX];

	if (!g->quadratic.is_known) {
		print_said(e, "", "  ", SAID(believed_alone, NO_FACTS));
	} else if (g->believes_quadratic) {
		snprintf(quadratic, sizeof(quadratic), "%.0f", g->quadratic.aicc);
		snprintf(linear, sizeof(linear), "%.0f", g->linear.aicc);
		print_said(e, "", "  ", SAID(believed_quadratic, fact_name("quadratic", quadratic), fact_name("linear", linear)));
	} else if (g->quadratic.aicc < g->linear.aicc) {
		print_said(e, "", "  ", SAID(believed_by_parts, NO_FACTS));
	} else {
		print_said(e, "", "  ", SAID(believed_linear, fact_flag("may_bend", g->may_bend)));
	}
}

/* When it runs out, by the fit that is believed. */
static struct said limit_said(const struct growth *g, const struct growth_fit *f)
{
	struct fact fit = fact_name("fit", g->believes_quadratic ? "quadratic" : "linear");

	if (isinf(f->limit_step) && isfinite(g->limit_step_low))
		return SAID(series_may_run_out, fit, fact_at("low", g->limit_step_low));
	if (isinf(f->limit_step))
		return SAID(series_does_not_run_out, fit);
	return SAID(series_limit, fact_at("at", f->limit_step), fact_at("low", g->limit_step_low), fact_at("high", g->limit_step_high));
}

static void print_limit(struct emit *e, const struct growth *g, const struct seriestext *s,
			const struct growth_limits *l)
{
	const struct growth_fit *f = growth_believed(g);

	if (!l->capacity_bytes || !growth_is_finding(g, s, l) || !f->is_known)
		return;
	emit_blank(e);
	if (s->reading[s->nr - 1].bytes >= growth_limits_bytes(l)) {
		print_said(e, "", "  ", SAID(series_is_beyond, NO_FACTS));
		return;
	}
	print_said(e, "", "  ", limit_said(g, f));
	print_forecast(e, &g->quadratic, s, "  quadratic", g->believes_quadratic);
	print_forecast(e, &g->linear, s, "  linear", !g->believes_quadratic);
	print_why(e, g);
}

/* A line below all others, the first after an empty one. */
static void note(struct emit *e, bool *is_first, struct said said)
{
	if (*is_first)
		emit_blank(e);
	*is_first = false;
	print_said(e, "", "  ", said);
}

static void print_notes(struct emit *e, const struct growth *g, const struct seriestext *s)
{
	uint64_t no_unit = s->trouble[SERIESTEXT_NO_UNIT], negative = s->trouble[SERIESTEXT_NEGATIVE];
	uint64_t not_finite = s->trouble[SERIESTEXT_NOT_FINITE];
	bool is_first = true;

	if (g->nr_warm_up)
		note(e, &is_first, SAID(series_warm_up, fact_count("readings", g->nr_warm_up), fact_whole("step", s->reading[g->nr_warm_up].step)));
	if (g->nr_outliers)
		note(e, &is_first, SAID(series_spikes, fact_count("readings", g->nr_outliers)));
	if (s->is_decimal)
		note(e, &is_first, SAID(series_is_decimal, NO_FACTS));
	if (largest_reading(s) < 1 << 20)
		note(e, &is_first, SAID(series_is_small, NO_FACTS));
	if (s->is_counted)
		note(e, &is_first, SAID(series_is_counted, NO_FACTS));
	if (s->nr_restarts)
		note(e, &is_first, SAID(series_restarts, fact_count("times", s->nr_restarts)));
	if (s->nr_unordered)
		note(e, &is_first, SAID(series_is_unordered, fact_count("times", s->nr_unordered)));
	if (no_unit + negative + not_finite)
		note(e, &is_first, SAID(series_not_used, fact_count("no_unit", no_unit), fact_count("negative", negative),
					fact_count("not_finite", not_finite)));
}

/* "12.3 MiB a step, 12.1 MiB to 12.5 MiB (95%)" */
static struct said pace_said(const struct growth *g, const struct seriestext *s)
{
	return SAID(series_pace, fact_size("rate", s, g->slope, 3), fact_size("low", s, g->slope_low, 3),
		    fact_size("high", s, g->slope_high, 3), fact_flag("is_still", !grows(g)));
}

static void print_text(struct emit *e, const struct growth *g, const struct seriestext *s,
		       const struct growth_limits *l)
{
	const struct growth_reading *last = &s->reading[s->nr - 1];

	print_growth_line(e, g, s);
	if (g->shape == GROWTH_UNKNOWN && g->nr_used >= 4) {
		print_said(e, "", "  ", SAID(series_of_one_step, NO_FACTS));
	} else if (g->shape == GROWTH_UNKNOWN) {
		print_said(e, "", "  ", SAID(series_too_short, fact_count("readings", g->nr_used)));
	} else {
		print_slopes(e, g, s);
		emit_blank(e);
		print_said_label(e, "  growth", pace_said(g, s));
	}
	print_said_label(e, "  now", SAID(series_now, fact_size("bytes", s, last->bytes, 3), fact_whole("step", last->step),
			       fact_many("readings", s->nr_readings)));
	if (l->capacity_bytes)
		print_said_label(e, "  capacity", SAID(series_capacity, fact_size("bytes", s, growth_limits_bytes(l), 4),
					    fact_flag("is_reduced", l->context_bytes)));
	print_limit(e, g, s, l);
	if (grows(g) && !growth_is_finding(g, s, l))
		print_said(e, "", "  ", SAID(series_note, fact_whole("steps", l->horizon_steps)));
	if (growth_is_warned(g, s, l))
		print_said(e, "", "  ", SAID(note_warned, NO_FACTS));
	print_notes(e, g, s);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void json_growth_fit(struct emit *e, const char *key, const struct growth_fit *f, bool is_whole)
{
	if (!f->is_known) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_double(e, "error_bytes", NULL, f->error_bytes);
	if (is_whole)
		emit_double(e, "aicc", NULL, f->aicc);
	emit_double(e, "limit_step", NULL, f->limit_step);
	emit_double(e, "limit_step_low", NULL, f->limit_step_low);
	emit_double(e, "limit_step_high", NULL, f->limit_step_high);
	if (is_whole)
		emit_bool(e, "reaches_limit", NULL, isfinite(f->limit_step));
	emit_object_end(e);
}

static void print_json_finding(struct emit *e, const struct growth *g, const struct seriestext *s,
			       const struct growth_limits *l)
{
	struct said said = SAID(series_grows, fact_size("rate", s, g->slope, 3), fact_name("course", growth_shape_names[g->shape]));

	emit_array_begin(e, "findings", NULL);
	if (growth_is_finding(g, s, l)) {
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(VERDICT_LEAK));
		emit_null(e, "site", NULL);
		emit_double(e, "bytes", NULL, nearbyint(growth_so_far(g, s)));
		sentence_json_texts(e, "evidence", &said, 1);
		sentence_json(e, "facts", &said);
		emit_array_begin(e, "advice", NULL);
		emit_array_end(e);
		emit_object_end(e);
	}
	emit_array_end(e);
}

static void print_json(struct emit *e, const struct growth *g, const struct seriestext *s,
		       const struct growth_limits *l)
{
	static const char *const troubles[] = { "no_number", "no_unit", "negative", "not_finite" };
	double slope[PACE_PARTS];
	size_t nr = slopes_between(g, s, slope);

	emit_string(e, "source", NULL, "series");
	emit_object_begin(e, "series", NULL);
	emit_uint(e, "lines", NULL, s->nr_lines);
	emit_uint(e, "readings", NULL, s->nr_readings);
	emit_uint(e, "thinned", NULL, s->thinned);
	emit_uint(e, "restarts", NULL, s->nr_restarts);
	emit_uint(e, "unordered", NULL, s->nr_unordered);
	emit_bool(e, "counted_steps", NULL, s->is_counted);
	emit_object_begin(e, "not_used", NULL);
	for (int i = 0; i < SERIESTEXT_NR_TROUBLES; i++)
		emit_uint(e, troubles[i], NULL, s->trouble[i]);
	emit_object_end(e);
	emit_double(e, "first_step", NULL, s->reading[0].step);
	emit_double(e, "last_step", NULL, s->reading[s->nr - 1].step);
	emit_double(e, "last_bytes", NULL, nearbyint(s->reading[s->nr - 1].bytes));
	emit_object_end(e);
	emit_object_begin(e, "growth", NULL);
	emit_uint(e, "warm_up_readings", NULL, g->nr_warm_up);
	emit_uint(e, "used_readings", NULL, g->nr_used);
	emit_uint(e, "outliers", NULL, g->nr_outliers);
	emit_double(e, "bytes", NULL, nearbyint(growth_so_far(g, s)));
	emit_double(e, "bytes_per_step", NULL, g->slope);
	emit_double(e, "bytes_per_step_low", NULL, g->slope_low);
	emit_double(e, "bytes_per_step_high", NULL, g->slope_high);
	emit_string(e, "shape", NULL, growth_shape_names[g->shape]);
	emit_array_begin(e, "parts_bytes_per_step", NULL);
	for (size_t i = 0; i < nr; i++)
		emit_double(e, NULL, NULL, slope[i]);
	emit_array_end(e);
	emit_double(e, "limit_bytes", NULL, growth_limits_bytes(l));
	emit_string(e, "believed", NULL, g->believes_quadratic ? "quadratic" : "linear");
	emit_double(e, "limit_step_low", NULL, g->limit_step_low);
	emit_double(e, "limit_step_high", NULL, g->limit_step_high);
	json_growth_fit(e, "linear", &g->linear, true);
	json_growth_fit(e, "quadratic", &g->quadratic, true);
	emit_bool(e, "warned", NULL, growth_is_warned(g, s, l));
	emit_object_end(e);
	print_json_finding(e, g, s, l);
}

void print_growth(struct emit *e, const struct growth *g, const struct seriestext *s,
		  const struct growth_limits *l)
{
	if (emit_is_text(e))
		print_text(e, g, s, l);
	else if (emit_is_json(e))
		print_json(e, g, s, l);
}
