/* SPDX-License-Identifier: MIT */
/* A series of readings and its growth, in words; see print_growth.h. */
#include "analyzer/pages/print_growth.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/growth/pace.h"
#include "analyzer/findings/verdict.h"

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
		emit_text(e, "per step%s: %s %s: %s", g->nr_used > PACE_PARTS + 1 ? ", in parts" : "", list,
			  units[unit][s->is_decimal], growth_shape_names[g->shape]);
}

static void print_growth_line(struct emit *e, const struct growth *g, const struct seriestext *s)
{
	const struct growth_reading *first = &s->reading[g->nr_warm_up], *last = &s->reading[s->nr - 1];
	double by = last->bytes - first->bytes;
	char sum[HUMAN_MAX];

	emit_heading(e, "%s%s in %.0f steps", by > 0 ? "+" : "", size(sum, s, by, 2),
		     last->step - first->step);
}

static void print_forecast(struct emit *e, const struct growth_fit *f, const struct seriestext *s,
			   const char *label, bool is_believed)
{
	char at[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX], off[HUMAN_MAX];

	if (!f->is_known || isnan(f->limit_step))
		return;
	emit_label(e, NULL, label, "step %-8s %s to %s; readings are off by %s%s",
		   step_text(at, f->limit_step), step_text(low, f->limit_step_low),
		   step_text(high, f->limit_step_high), size(off, s, f->error_bytes, 2),
		   is_believed ? " (believed)" : "");
}

static void print_why(struct emit *e, const struct growth *g)
{
	if (!g->quadratic.is_known)
		emit_text(e, "believed: the linear fit; there are too few readings for another");
	else if (g->believes_quadratic)
		emit_text(e,
			  "believed: the quadratic fit; it is closer to the readings, with AICc %.0f to %.0f",
			  g->quadratic.aicc, g->linear.aicc);
	else if (g->quadratic.aicc < g->linear.aicc)
		emit_text(e, "believed: the linear fit; what parts of the series add neither rises nor falls");
	else
		emit_text(e, "believed: the linear fit; a quadratic term is not told apart from zero%s",
			  g->may_bend ? ", nor ruled out" : "");
}

static void print_limit(struct emit *e, const struct growth *g, const struct seriestext *s,
			const struct growth_limits *l)
{
	const struct growth_fit *f = growth_believed(g);
	char at[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX];

	if (!l->capacity_bytes || !growth_is_finding(g, s, l) || !f->is_known)
		return;
	emit_blank(e);
	if (s->reading[s->nr - 1].bytes >= growth_limits_bytes(l)) {
		emit_text(e, "The last reading is above the capacity already.");
		return;
	}
	if (isinf(f->limit_step) && isfinite(g->limit_step_low))
		emit_text(e, "By the %s fit memory does not run out; at its latest pace it may from step %s on.",
			  g->believes_quadratic ? "quadratic" : "linear", step_text(low, g->limit_step_low));
	else if (isinf(f->limit_step))
		emit_text(e, "By the %s fit memory does not run out.",
			  g->believes_quadratic ? "quadratic" : "linear");
	else
		emit_text(e, "Memory runs out near step %s (%s to %s).", step_text(at, f->limit_step),
			  step_text(low, g->limit_step_low), step_text(high, g->limit_step_high));
	print_forecast(e, &g->quadratic, s, "  quadratic", g->believes_quadratic);
	print_forecast(e, &g->linear, s, "  linear", !g->believes_quadratic);
	print_why(e, g);
}

/* A line below all others, the first after an empty one. */
__attribute__((format(printf, 3, 4))) static void note(struct emit *e, bool *is_first, const char *format,
						       ...)
{
	char text[128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (*is_first)
		emit_blank(e);
	*is_first = false;
	emit_text(e, "%s", text);
}

static void print_notes(struct emit *e, const struct growth *g, const struct seriestext *s)
{
	uint64_t no_unit = s->trouble[SERIESTEXT_NO_UNIT], negative = s->trouble[SERIESTEXT_NEGATIVE];
	bool is_first = true;

	if (g->nr_warm_up)
		note(e, &is_first, "warm-up: %zu reading%s before step %.0f left out", g->nr_warm_up,
		     g->nr_warm_up == 1 ? "" : "s", s->reading[g->nr_warm_up].step);
	if (g->nr_outliers)
		note(e, &is_first, "spikes: %zu reading%s left out of the fits", g->nr_outliers,
		     g->nr_outliers == 1 ? "" : "s");
	if (s->is_decimal)
		note(e, &is_first, "GB is read as 10^9 bytes; --binary reads it as 2^30");
	if (largest_reading(s) < 1 << 20)
		note(e, &is_first, "all readings are below 1 MiB: if they are no bytes, say --unit GiB");
	if (s->is_counted)
		note(e, &is_first, "no line names a step: readings are numbered instead");
	if (s->nr_restarts)
		note(e, &is_first, "the step went back %" PRIu64 " time%s: the last run is looked at",
		     s->nr_restarts, s->nr_restarts == 1 ? "" : "s");
	if (s->nr_unordered)
		note(e, &is_first, "the step went back %" PRIu64 " time%s: readings are sorted by step", s->nr_unordered,
		     s->nr_unordered == 1 ? "" : "s");
	if (no_unit + negative + s->trouble[SERIESTEXT_NOT_FINITE])
		note(e, &is_first,
		     "lines not used: %" PRIu64 " without a unit, %" PRIu64 " negative, %" PRIu64
		     " too large or not finite",
		     no_unit, negative, s->trouble[SERIESTEXT_NOT_FINITE]);
}

static void print_text(struct emit *e, const struct growth *g, const struct seriestext *s,
		       const struct growth_limits *l)
{
	char slope[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX], now[HUMAN_MAX], count[HUMAN_MAX],
		room[HUMAN_MAX];

	print_growth_line(e, g, s);
	if (g->shape == GROWTH_UNKNOWN && g->nr_used >= 4) {
		emit_text(e, "all readings are of one step: whether that goes on is not known");
	} else if (g->shape == GROWTH_UNKNOWN) {
		emit_text(e, "readings are too few to tell whether that goes on: %zu of the 4 that are needed",
			  g->nr_used);
	} else {
		print_slopes(e, g, s);
		emit_blank(e);
		emit_label(e, NULL, "  growth", "%s a step, %s to %s (95%%)%s", size(slope, s, g->slope, 3),
			   size(low, s, g->slope_low, 3), size(high, s, g->slope_high, 3),
			   grows(g) ? "" : ": not growing");
	}
	emit_label(e, NULL, "  now", "%s at step %.0f, of %s reading%s",
		   size(now, s, s->reading[s->nr - 1].bytes, 3), s->reading[s->nr - 1].step,
		   human_count(count, s->nr_readings), s->nr_readings == 1 ? "" : "s");
	if (l->capacity_bytes)
		emit_label(e, NULL, "  capacity", "%s%s", size(room, s, growth_limits_bytes(l), 4),
			   l->context_bytes ? " without the context" : "");
	print_limit(e, g, s, l);
	if (grows(g) && !growth_is_finding(g, s, l))
		emit_text(e, "a note, no finding: under 1%% so far, and no limit is reached in %.0f steps",
			  l->horizon_steps);
	if (growth_is_warned(g, s, l))
		emit_text(e, "more than --warn-growth allows");
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
	char text[128], slope[HUMAN_MAX];

	emit_array_begin(e, "findings", NULL);
	if (growth_is_finding(g, s, l)) {
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(VERDICT_LEAK));
		emit_null(e, "site", NULL);
		emit_double(e, "bytes", NULL, nearbyint(growth_so_far(g, s)));
		emit_array_begin(e, "evidence", NULL);
		snprintf(text, sizeof(text), "grows by %s a step, %s", size(slope, s, g->slope, 3),
			 growth_shape_names[g->shape]);
		emit_string(e, NULL, NULL, text);
		emit_array_end(e);
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
