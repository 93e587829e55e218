/* SPDX-License-Identifier: MIT */
/* Growth from step to step: a sentence with figures, then each place that grows with what tells so; the same as JSON. */
#include "analyzer/pages/print_stepgrowth.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/holders/holders.h"
#include "analyzer/names/letgo.h"
#include "analyzer/pages/print_growth.h"
#include "analyzer/pages/print_holders.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_passes.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"
#include "analyzer/pages/stepgrowth_words.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/recording/basename.h"

#define FINDINGS_SHOWN 3
#define PAGE_WIDTH 80

/* ---- text ----------------------------------------------------------------------------------- */

static const char *origin_text(char *buf, size_t size, const struct replay *m, struct replay_process *p,
			       const struct stepgrowth_cause *c)
{
	struct holder h = { .largest = books_group(p->books, c->group) };

	return print_origin(buf, size, m, p, &h);
}

static double findings_slope(const struct stepgrowth *g)
{
	double slope = 0;

	for (size_t i = 0; i < g->nr_findings; i++)
		slope += g->cause[i].growth.slope;
	return slope;
}

/* "train.py:31": the program's own line; "" if it is not known. Returns buf. */
static const char *line_place(char *buf, size_t size, const struct replay *m, struct replay_process *p,
			      const struct stepgrowth_cause *c)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };

	*buf = 0;
	stepgrowth_caller(&stack, m, p, c, &frame);
	if (frame && frame->file && frame->line)
		snprintf(buf, size, "%s:%" PRIu32, basename_of(frame->file), frame->line);
	stack_release(&stack);
	return buf;
}

/* The headline, with the place or "". */
static struct said line_said(const struct stepgrowth *g, const struct stepgrowth_limits *limits, const char *where)
{
	double oom = stepgrowth_oom_step(g, limits), low, high;
	/* Growth that slows down may come to an end, by the fit that is believed. */
	bool may_end = stepgrowth_oom_range(g, limits, &low, &high) && isinf(growth_believed(&g->total)->limit_step_high);
	char text[HUMAN_MAX];
	struct fact is_gpu = fact_flag("is_gpu", !g->is_host), is_host = fact_flag("is_host", g->is_host);
	struct fact place = fact_name("place", *where ? where : NULL), rate = fact_signed_bytes("rate", llround(findings_slope(g)));
	struct fact each = fact_name("each", stepgrowth_each(g)), by = fact_name("by", stepgrowth_by_names[g->by]), at;
	struct fact goes_on = fact_flag("goes_on", !g->has_ended), has_ended = fact_flag("has_ended", g->has_ended);

	if (g->is_rare)
		return SAID(memory_grew, is_gpu, is_host, fact_count("rises", g->cause[0].nr_rises), fact_count("steps", g->nr_steps), place);
	if (isnan(oom))
		return SAID(memory_grows, is_gpu, is_host, rate, each, place, fact_flag("is_beyond", stepgrowth_is_beyond(g, limits)));
	at = fact_name("at", stepgrowth_at(text, g, may_end ? low : oom));
	if (g->by == STEPGROWTH_BY_EVENTS)
		return may_end ? SAID(memory_may_run_out_after, rate, each, place, at) :
				 SAID(memory_runs_out_after, rate, each, place, goes_on, has_ended, at);
	return may_end ? SAID(memory_may_run_out, rate, each, place, by, at) :
			 SAID(memory_runs_out, rate, each, place, goes_on, has_ended, by, at);
}

unsigned print_stepgrowth_line(struct emit *e, const struct replay *m, const struct replay_device *d,
			       const struct stepgrowth *g, const struct stepgrowth_limits *limits)
{
	char text[SENTENCE_MAX], place[STEPGROWTH_TEXT_MAX];
	struct said said;

	if (!g->nr_findings)
		return 0;
	said = line_said(g, limits, line_place(place, sizeof(place), m, d->process, &g->cause[0]));
	if (strlen(sentence_text(text, &said)) > PAGE_WIDTH)
		said = line_said(g, limits, "");
	emit_heading(e, "%s", sentence_text(text, &said));
	return 1;
}

/* With the event, or the next step or call, at which memory is full. */
static const char *limit_text(char buf[static HUMAN_MAX], const struct stepgrowth *g, double limit)
{
	return stepgrowth_at(buf, g, g->by == STEPGROWTH_BY_EVENTS ? limit : floor(limit) + 1);
}

/* "step ", "call ", "after ": before stepgrowth_at(); nothing before "never". */
static const char *before_at(const struct stepgrowth *g, double at)
{
	static const char *const words[] = { "step ", "call ", "after " };

	return isfinite(at) ? words[g->by] : "";
}

static void print_fit(struct emit *e, const struct stepgrowth *g, const struct growth_fit *f, const char *label)
{
	char at[HUMAN_MAX], text[HUMAN_MAX + 8], low[HUMAN_MAX], high[HUMAN_MAX];
	struct said said;
	double left = (f->limit_step - g->reading[g->nr_readings - 1].step) * g->step_ns;
	uint64_t ns = left > 0 && left < 1e18 ? (uint64_t)left : 0;

	if (!f->is_known || isnan(f->limit_step))
		return;
	snprintf(text, sizeof(text), "%s%s", before_at(g, f->limit_step), limit_text(at, g, f->limit_step));
	said = SAID(fit_runs_out, fact_name("at", text), fact_name("low", limit_text(low, g, f->limit_step_low)),
		    fact_name("high", limit_text(high, g, f->limit_step_high)),
		    fact_if(ns, fact_ns("left", ns)),
		    fact_flag("is_believed", f == growth_believed(&g->total)));
	print_said_label(e, label, said);
}

/* What the believed fit's own range leaves out. */
static void print_range(struct emit *e, const struct stepgrowth *g, const struct stepgrowth_limits *limits)
{
	const struct growth_fit *f = growth_believed(&g->total);
	char from[HUMAN_MAX], to[HUMAN_MAX], text[HUMAN_MAX + 8];
	struct fact first, last;
	double low, high;

	if (!stepgrowth_oom_range(g, limits, &low, &high))
		return;
	stepgrowth_at(from, g, low);
	last = fact_name("last", stepgrowth_at(to, g, high));
	snprintf(text, sizeof(text), "%s%s", before_at(g, low), from);
	first = fact_name("first", text);
	if (isnan(stepgrowth_oom_step(g, limits))) {
		print_said(e, "  ", "  ", g->by == STEPGROWTH_BY_EVENTS ? SAID(may_run_out_after, first) : SAID(may_run_out_from, first));
	} else if (g->total.limit_step_low != f->limit_step_low || g->total.limit_step_high != f->limit_step_high) {
		print_said_label(e, "  in all", g->total.may_bend ? SAID(range_of_bend, first, last) : SAID(range_of_pace, first, last));
	}
}

static void print_caller(struct emit *e, const struct replay *m, struct replay_process *p,
			 const struct stepgrowth_cause *c)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };
	char place[STEPGROWTH_TEXT_MAX];

	if (stepgrowth_caller(&stack, m, p, c, &frame))
		print_said(e, "  ", "    ", SAID(grows_called_at, fact_name("place", stepgrowth_place_text(place, sizeof(place), frame))));
	stack_release(&stack);
}

/* What the program calls what stays; false: no census tells. */
static bool print_cause_name(struct emit *e, const struct replay_device *d, const struct stepgrowth_cause *c)
{
	const struct namegroup *only;
	struct namegroups names;
	bool is_known;

	if (stepgrowth_is_host(d) || c->class == STEPGROWTH_DRIVER)
		return false;
	namedblocks_of_stack(&names, d, c->group);
	only = namegroups_most(&names);
	is_known = only != NULL;
	if (is_known) {
		print_said(e, "  ", "    ", named_said(only));
		print_said(e, "  ", "    ", lengths_said(d->process->names, only));
		print_said(e, "  let go by ", "    ", letgo_said(only, false));
	}
	namegroups_release(&names);
	return is_known;
}

static void print_cause(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
			const struct stepgrowth_cause *c)
{
	struct replay_process *p = d->process;
	const struct said growth = stepgrowth_growth(g, c), what = stepgrowth_what(c), bound = stepgrowth_bound(c);
	char text[STEPGROWTH_TEXT_MAX];
	struct said keeper;

	print_said_heading(e, growth);
	emit_text(e, "  %s", origin_text(text, sizeof(text), m, p, c));
	print_caller(e, m, p, c);
	keeper = print_cause_name(e, d, c) ? SAID_NOTHING : stepgrowth_keeper(m, p, c);
	print_said(e, "  ", "    ", what);
	print_said(e, "  ", "    ", keeper);
	print_said(e, "  ", "    ", bound);
}

/* What is no growth without end, and why: the first of those that are so for this reason. */
static void print_apart(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
			bool (*is_so)(const struct stepgrowth_cause *c))
{
	char place[STEPGROWTH_TEXT_MAX];
	const struct stepgrowth_cause *first = NULL;
	double sum = 0;

	for (size_t i = g->nr_findings; i < g->nr_causes; i++) {
		if (!is_so(&g->cause[i]))
			continue;
		sum += g->cause[i].growth.slope;
		first = first ? first : &g->cause[i];
	}
	if (!first)
		return;
	print_said(e, "", "  ", stepgrowth_apart_note(g, first, sum, line_place(place, sizeof(place), m, d->process, first)));
	if (first->fills_up)
		print_said(e, "  ", "  ", stepgrowth_bound(first));
}

static bool fills_up(const struct stepgrowth_cause *c)
{
	return c->fills_up;
}

static bool is_let_go(const struct stepgrowth_cause *c)
{
	return c->is_let_go && !c->fills_up;
}

static bool is_offset(const struct stepgrowth_cause *c)
{
	return c->is_offset;
}

static bool follows_batch(const struct stepgrowth_cause *c)
{
	return c->follows_batch && !c->is_let_go && !c->fills_up;
}

static void print_notes(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g)
{
	double sum = 0;
	size_t nr = 0;

	if (g->nr_findings > FINDINGS_SHOWN)
		print_said(e, "", "  ", SAID(more_grow, fact_count("more", g->nr_findings - FINDINGS_SHOWN)));
	for (size_t i = g->nr_findings; i < g->nr_causes; i++) {
		if (stepgrowth_is_apart(&g->cause[i]))
			continue;
		sum += g->cause[i].growth.slope;
		nr++;
	}
	print_apart(e, m, d, g, is_let_go);
	print_apart(e, m, d, g, follows_batch);
	print_apart(e, m, d, g, fills_up);
	print_apart(e, m, d, g, is_offset);
	if (nr)
		print_said(e, "", "  ", stepgrowth_small_note(g, nr, sum));
	if (g->nr_findings && g->by == STEPGROWTH_BY_CALL)
		print_said(e, "", "  ", SAID(note_by_calls, NO_FACTS));
	if (g->nr_findings && g->by == STEPGROWTH_BY_EVENTS)
		print_said(e, "", "  ", SAID(note_by_events, NO_FACTS));
	if (g->nr_causes && g->by == STEPGROWTH_BY_STEP && d->process->is_kept)
		print_said(e, "", "  ", SAID(note_kept_part, NO_FACTS));
	if (g->is_warned)
		print_said(e, "", "  ", SAID(note_warned, NO_FACTS));
}

void print_stepgrowth(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
		      const struct stepgrowth_limits *limits)
{
	char title[STEPGROWTH_TEXT_MAX];

	if (g->is_host && m->nr_processes > 1)
		print_said(e, "", "  ", SAID(growth_on_host, fact_count("pid", d->process->header->pid)));
	else if (!g->is_host && m->nr_devices > 1)
		emit_text(e, "%s", print_device_title(title, sizeof(title), m, d));
	if (!print_stepgrowth_line(e, m, d, g, limits))
		print_said(e, "", "  ", stepgrowth_none(g, d->process->is_kept));
	if (!isnan(stepgrowth_oom_step(g, limits)) && !g->is_rare) {
		if (g->has_ended)
			print_said(e, "", "  ", SAID(note_ended, NO_FACTS));
		print_fit(e, g, &g->total.linear, "  linear");
		print_fit(e, g, &g->total.quadratic, "  quadratic");
	}
	if (!g->is_rare)
		print_range(e, g, limits);
	if (g->nr_findings)
		emit_blank(e);
	for (size_t i = 0; i < g->nr_findings && i < FINDINGS_SHOWN; i++)
		print_cause(e, m, d, g, &g->cause[i]);
	print_notes(e, m, d, g);
	if (!g->is_host)
		print_passes(e, d);
	emit_blank(e);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* A step that may never come, or is not known: null. */
static void json_step_number(struct emit *e, const char *key, double step)
{
	if (step < 1e18)
		emit_int(e, key, NULL, llround(step));
	else
		emit_null(e, key, NULL);
}

static void json_rate(struct emit *e, const char *key, double slope, bool is_known)
{
	if (is_known)
		emit_double(e, key, NULL, slope);
	else
		emit_null(e, key, NULL);
}

static void json_slope(struct emit *e, const struct growth *g, enum stepgrowth_by by)
{
	json_rate(e, "bytes_per_step", g->slope, by == STEPGROWTH_BY_STEP);
	json_rate(e, "bytes_per_step_low", g->slope_low, by == STEPGROWTH_BY_STEP);
	json_rate(e, "bytes_per_step_high", g->slope_high, by == STEPGROWTH_BY_STEP);
	json_rate(e, "bytes_per_call", g->slope, by == STEPGROWTH_BY_CALL);
	json_rate(e, "bytes_per_call_low", g->slope_low, by == STEPGROWTH_BY_CALL);
	json_rate(e, "bytes_per_call_high", g->slope_high, by == STEPGROWTH_BY_CALL);
	json_rate(e, "bytes_per_event", g->slope / STEPGROWTH_EVENTS, by == STEPGROWTH_BY_EVENTS);
	json_rate(e, "bytes_per_event_low", g->slope_low / STEPGROWTH_EVENTS, by == STEPGROWTH_BY_EVENTS);
	json_rate(e, "bytes_per_event_high", g->slope_high / STEPGROWTH_EVENTS, by == STEPGROWTH_BY_EVENTS);
	emit_string(e, "shape", NULL, growth_shape_names[g->shape]);
}

static void json_site(struct emit *e, const struct replay *m, struct replay_process *p, uint32_t python, uint32_t native)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };

	stepgrowth_site(&stack, m, p, python, native, &frame);
	print_site_of(e, frame);
	stack_release(&stack);
}

static void json_cause_site(struct emit *e, const struct replay *m, struct replay_process *p,
			    const struct stepgrowth_cause *c)
{
	const struct group *group = books_group(p->books, c->group);

	json_site(e, m, p, group->python_stack, group->native_stack);
}

static void json_caller(struct emit *e, const struct replay *m, struct replay_process *p,
			const struct stepgrowth_cause *c)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };

	if (stepgrowth_caller(&stack, m, p, c, &frame))
		print_frame_of(e, "caller", frame);
	else
		emit_null(e, "caller", NULL);
	stack_release(&stack);
}

static void json_kept_by(struct emit *e, const struct replay *m, struct replay_process *p,
			 const struct stepgrowth_cause *c)
{
	const struct said keeper = stepgrowth_keeper(m, p, c);
	char text[SENTENCE_MAX];

	if (keeper.sentence == SAY_nothing) {
		emit_null(e, "kept_by", NULL);
		return;
	}
	emit_object_begin(e, "kept_by", NULL);
	emit_string(e, "evidence", NULL, sentence_text(text, &keeper));
	sentence_json(e, "facts", &keeper);
	emit_uint(e, "freed", NULL, c->nr_freed);
	json_site(e, m, p, c->freed_stack, 0);
	emit_object_end(e);
}

/* "name" and "keepers" of what stays, where a census tells. */
static void json_cause_name(struct emit *e, const struct replay_device *d, const struct stepgrowth_cause *c)
{
	const struct namegroup *only;
	struct namegroups names;

	if (stepgrowth_is_host(d) || c->class == STEPGROWTH_DRIVER)
		return;
	namedblocks_of_stack(&names, d, c->group);
	only = namegroups_most(&names);
	if (only) {
		json_name(e, only);
		json_lengths(e, d->process->names, only);
		json_let_go(e, only, false);
	}
	namegroups_release(&names);
}

static void json_cause(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
		       const struct stepgrowth_cause *c)
{
	struct replay_process *p = d->process;

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "class", NULL, stepgrowth_class_names[c->class]);
	emit_bool(e, "is_finding", NULL, c->is_finding);
	json_cause_site(e, m, p, c);
	json_caller(e, m, p, c);
	json_slope(e, &c->growth, g->by);
	emit_int(e, "grown_bytes", NULL, llround(c->grown_bytes));
	emit_uint(e, "rises", NULL, c->nr_rises);
	emit_int(e, "last_bytes", NULL, llround(c->last_bytes));
	json_step_number(e, "first_step", c->first_step ? c->first_step : NAN);
	json_step_number(e, "first_call", g->by == STEPGROWTH_BY_CALL ? c->first : NAN);
	json_step_number(e, "first_event", g->by == STEPGROWTH_BY_EVENTS ? c->first * STEPGROWTH_EVENTS : NAN);
	emit_uint(e, "kept", NULL, c->nr_kept);
	emit_uint(e, "places", NULL, c->nr_places);
	emit_string(e, "owner", NULL, owner_names[c->owner]);
	emit_bool(e, "module_has_hook", NULL, c->has_hook);
	emit_bool(e, "follows_batch", NULL, c->follows_batch);
	emit_bool(e, "let_go", NULL, c->is_let_go);
	emit_bool(e, "fills_up", NULL, c->fills_up);
	emit_bool(e, "offset", NULL, c->is_offset);
	emit_string(e, "certainty", NULL, certainty_name(c->certainty));
	json_kept_by(e, m, p, c);
	json_cause_name(e, d, c);
	emit_object_end(e);
}

static void json_whose(struct emit *e, const struct replay_device *d)
{
	emit_string(e, "memory", NULL, stepgrowth_is_host(d) ? "host" : "device");
	if (!stepgrowth_is_host(d)) {
		print_device_identity(e, d);
		return;
	}
	emit_string(e, "host", NULL, d->process->header->host);
	emit_uint(e, "pid", NULL, d->process->header->pid);
	print_optional(e, "rank", d->process->rank);
	print_optional(e, "local_rank", d->process->local_rank);
	emit_null(e, "device", NULL);
}

void json_stepgrowth(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
		     const struct stepgrowth_limits *limits)
{
	double oom = stepgrowth_oom_step(g, limits), low, high;
	bool is_by_step = g->by == STEPGROWTH_BY_STEP, has_range = stepgrowth_oom_range(g, limits, &low, &high) && is_by_step;

	emit_object_begin(e, NULL, NULL);
	json_whose(e, d);
	emit_string(e, "by", NULL, stepgrowth_by_names[g->by]);
	emit_uint(e, "steps", NULL, g->nr_steps);
	emit_uint(e, "readings", NULL, g->nr_readings);
	emit_uint(e, "warm_up_readings", NULL, g->total.nr_warm_up);
	json_slope(e, &g->total, g->by);
	emit_double(e, "limit_bytes", NULL, g->limit_bytes);
	emit_double(e, "overhead_bytes", NULL, g->overhead_bytes);
	emit_double(e, "step_ns", NULL, g->step_ns);
	emit_bool(e, "beyond_capacity", NULL, stepgrowth_is_beyond(g, limits));
	json_step_number(e, "predicted_oom_step", is_by_step ? oom : NAN);
	json_step_number(e, "predicted_oom_step_low", has_range ? low : NAN);
	json_step_number(e, "predicted_oom_step_high", has_range ? high : NAN);
	json_step_number(e, "predicted_oom_call", g->by == STEPGROWTH_BY_CALL ? oom : NAN);
	json_step_number(e, "predicted_oom_event", g->by == STEPGROWTH_BY_EVENTS ? oom * STEPGROWTH_EVENTS : NAN);
	emit_string(e, "believed", NULL, g->total.believes_quadratic ? "quadratic" : "linear");
	json_growth_fit(e, "linear", &g->total.linear, false);
	json_growth_fit(e, "quadratic", &g->total.quadratic, false);
	emit_bool(e, "warned", NULL, g->is_warned);
	emit_array_begin(e, "causes", NULL);
	for (size_t i = 0; i < g->nr_causes; i++)
		json_cause(e, m, d, g, &g->cause[i]);
	emit_array_end(e);
	emit_object_end(e);
}

void json_steps(struct emit *e, const struct replay_device *d, const struct stepgrowth *g,
		const struct stepgrowth_limits *limits)
{
	emit_object_begin(e, "steps", NULL);
	emit_uint(e, "count", NULL, g->nr_steps);
	emit_bool(e, "of_kept_part", NULL, d->process->is_kept);
	json_rate(e, "growth_bytes_per_step", g->total.slope, g->by == STEPGROWTH_BY_STEP);
	json_step_number(e, "predicted_oom_step", g->by == STEPGROWTH_BY_STEP ? stepgrowth_oom_step(g, limits) : NAN);
	json_passes(e, d);
	emit_object_end(e);
}

void json_stepgrowth_findings(struct emit *e, const struct replay *m, const struct replay_device *d,
			      const struct stepgrowth *g)
{
	for (size_t i = 0; i < g->nr_findings; i++) {
		const struct stepgrowth_cause *c = &g->cause[i];
		const struct said said[] = { stepgrowth_growth(g, c), stepgrowth_what(c), stepgrowth_keeper(m, d->process, c),
					      stepgrowth_bound(c) };

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(c->verdict));
		json_cause_site(e, m, d->process, c);
		json_caller(e, m, d->process, c);
		emit_int(e, "bytes", NULL, llround(c->grown_bytes));
		emit_string(e, "certainty", NULL, certainty_name(c->certainty));
		sentence_json_texts(e, "evidence", said, sizeof(said) / sizeof(*said));
		sentence_json(e, "facts", &said[0]);
		sentence_json_facts(e, "evidence_facts", said + 1, sizeof(said) / sizeof(*said) - 1);
		emit_array_begin(e, "advice", NULL);
		emit_array_end(e);
		json_cause_name(e, d, c);
		emit_object_end(e);
	}
}
