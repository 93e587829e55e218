/* SPDX-License-Identifier: MIT */
/* Growth from step to step: a sentence with figures, then each place that grows with what tells so. */
#include "analyzer/cmds/print_stepgrowth.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/analysis/holders.h"
#include "analyzer/cmds/print_holders.h"
#include "analyzer/cmds/print_model.h"
#include "analyzer/cmds/print_passes.h"
#include "analyzer/ui/human.h"

#define FINDINGS_SHOWN 3
#define TEXT_MAX 256
#define PAGE_WIDTH 80
#define KEPT_PLACE_WIDTH 42 /* of who lets go, so that its line has 80 columns */

static const char *const shape_names[] = { "unknown", "none", "steady", "accelerating", "decelerating" };

static const char *rate(char buf[static HUMAN_MAX], double bytes)
{
	return human_signed_bytes(buf, (int64_t)llround(bytes));
}

static const char *step_number(char buf[static HUMAN_MAX], double step)
{
	if (!(step < 1e15)) {
		snprintf(buf, HUMAN_MAX, "never");
		return buf;
	}
	return human_count(buf, (uint64_t)step);
}

/* ---- evidence -------------------------------------------------------------------------------- */

/* What growth is by, and counted in. */
static const char *unit(const struct stepgrowth *g)
{
	return g->is_by_time ? "second" : "step";
}

static const char *seconds_text(char buf[static HUMAN_MAX], double seconds)
{
	if (!(seconds < 1e9))
		snprintf(buf, HUMAN_MAX, "never");
	else
		human_ns(buf, (uint64_t)(fmax(seconds, 0) * 1e9));
	return buf;
}

static const char *growth_text(char *buf, size_t size, const struct stepgrowth_cause *c)
{
	char slope[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX], since[HUMAN_MAX];
	const struct growth *g = &c->growth;

	if (!c->first_step)
		snprintf(buf, size, "%s a second (%s to %s, 95%%), %s, since %s", rate(slope, g->slope),
			 rate(low, g->slope_low), rate(high, g->slope_high), shape_names[g->shape],
			 seconds_text(since, c->first_s));
	else if (g->slope_low == g->slope_high)
		snprintf(buf, size, "%s in each step since step %" PRIu32, rate(slope, g->slope), c->first_step);
	else
		snprintf(buf, size, "%s a step (%s to %s, 95%%), %s, since step %" PRIu32, rate(slope, g->slope),
			 rate(low, g->slope_low), rate(high, g->slope_high), shape_names[g->shape], c->first_step);
	return buf;
}

static const char *class_text(char *buf, size_t size, const struct stepgrowth_cause *c)
{
	char kept[HUMAN_MAX];

	human_count(kept, c->nr_kept);
	switch (c->class) {
	case STEPGROWTH_GRAPH:
		snprintf(buf, size, "%s blocks of %" PRIu32 " place%s that forward keeps for backward", kept,
			 c->nr_places, c->nr_places == 1 ? "" : "s");
		break;
	case STEPGROWTH_GRAPH_TENSORS:
		snprintf(buf, size, "%s results of autograd stay; undetached, each holds its graph", kept);
		break;
	case STEPGROWTH_SHAPES:
		snprintf(buf, size, "%s tensors stay, each of another shape: a cache by shape", kept);
		break;
	case STEPGROWTH_SEQUENCE:
		snprintf(buf, size, "as many tensors as before, each time longer");
		break;
	case STEPGROWTH_HOOK:
		snprintf(buf, size, "%s tensors stay that a hook allocates", kept);
		break;
	case STEPGROWTH_CONTEXT:
		snprintf(buf, size, "%s tensors stay that a custom autograd.Function allocates", kept);
		break;
	case STEPGROWTH_HOST:
		snprintf(buf, size, "page-locked or managed host memory, taken by %s", owner_titles[c->owner]);
		break;
	case STEPGROWTH_DRIVER:
		snprintf(buf, size, "taken from the driver by %s, outside PyTorch", owner_titles[c->owner]);
		break;
	default:
		snprintf(buf, size, "%s tensors stay, one after another", kept);
	}
	return buf;
}

/* Where a Python stack is. false: nobody knows. */
static bool site_of(struct stack *stack, const struct model *m, struct model_process *p, uint32_t python,
		    uint32_t native, const struct stack_frame **frame)
{
	struct stack_source source = model_stack_source(m, p);
	int site = stack_expand(stack, &source, python, native) ? -1 : stack_site(stack);

	*frame = site < 0 ? NULL : &stack->frame[site];
	return *frame;
}

/* Who keeps it, where something tells; false: nothing does. */
static bool kept_text(char *buf, size_t size, const struct model *m, struct model_process *p,
		      const struct stepgrowth_cause *c)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };
	char place[TEXT_MAX];
	bool known = true;

	if (c->class == STEPGROWTH_GRAPH) {
		snprintf(buf, size, "kept by one graph a step, through its last result");
	} else if (c->class == STEPGROWTH_HOOK) {
		snprintf(buf, size, "kept by a hook: its frames are on the stack");
	} else if (c->class == STEPGROWTH_CONTEXT) {
		snprintf(buf, size, "kept by a Function's context: allocated in its forward or backward");
	} else if (c->nr_freed && site_of(&stack, m, p, c->freed_stack, 0, &frame)) {
		struct stack_frame shown = *frame;

		shown.file = shown.file ? print_short_path(shown.file) : NULL;
		stack_frame_text(place, sizeof(place), &shown);
		if (strlen(place) > KEPT_PLACE_WIDTH && shown.file) {
			shown.file = mapping_base_name(shown.file);
			stack_frame_text(place, sizeof(place), &shown);
		}
		snprintf(buf, size, "kept by what was let go at %.*s: %" PRIu32 " of %" PRIu32, KEPT_PLACE_WIDTH, place,
			 c->nr_freed, c->nr_kept);
	} else {
		known = false;
	}
	stack_release(&stack);
	return known;
}

static const char *origin_text(char *buf, size_t size, const struct model *m, struct model_process *p,
			       const struct stepgrowth_cause *c)
{
	struct holder h = { .largest = &p->books.groups.group[c->group] };

	return print_origin(buf, size, m, p, &h);
}

/* ---- text ------------------------------------------------------------------------------------ */

static double findings_slope(const struct stepgrowth *g)
{
	double slope = 0;

	for (size_t i = 0; i < g->nr_findings; i++)
		slope += g->cause[i].growth.slope;
	return slope;
}

/* " at train.py:31": of the first finding. Returns buf. */
static const char *place_text(char *buf, size_t size, const struct model *m, struct model_process *p,
			      const struct stepgrowth *g)
{
	const struct group *group = &p->books.groups.group[g->cause[0].group];
	const struct stack_frame *frame;
	struct stack stack = { 0 };

	*buf = 0;
	if (site_of(&stack, m, p, group->python_stack, group->native_stack, &frame) && frame->file && frame->line)
		snprintf(buf, size, " at %s:%" PRIu32, mapping_base_name(frame->file), frame->line);
	stack_release(&stack);
	return buf;
}

/* The sentence, with the place or "". Returns its width. */
static int line_text(char *buf, size_t size, const struct stepgrowth *g, const struct stepgrowth_limits *limits,
		     const char *place)
{
	double oom = stepgrowth_oom_step(g, limits);
	char slope[HUMAN_MAX], at[HUMAN_MAX];

	rate(slope, findings_slope(g));
	if (isnan(oom))
		return snprintf(buf, size, "%s grows by %s a %s%s%s.", g->is_host ? "Host memory for the GPU" : "Memory",
				slope, unit(g), place,
				stepgrowth_is_beyond(g, limits) ? ", and is beyond the capacity already" : "");
	if (g->is_by_time)
		return snprintf(buf, size, "Memory grows by %s a second%s, and runs out after %s.", slope, place,
				seconds_text(at, oom));
	return snprintf(buf, size, "Memory grows by %s a step%s, and runs out near step %s.", slope, place,
			step_number(at, oom));
}

unsigned print_stepgrowth_line(struct emit *e, const struct model *m, const struct model_device *d,
			       const struct stepgrowth *g, const struct stepgrowth_limits *limits)
{
	char text[2 * TEXT_MAX], place[TEXT_MAX];

	if (!g->nr_findings)
		return 0;
	if (line_text(text, sizeof(text), g, limits, place_text(place, sizeof(place), m, d->process, g)) > PAGE_WIDTH)
		line_text(text, sizeof(text), g, limits, "");
	emit_heading(e, "%s", text);
	return 1;
}

static void print_time_fit(struct emit *e, const struct stepgrowth *g, const struct growth_fit *f, const char *label)
{
	char at[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX];

	emit_label(e, NULL, label, "after %s (%s to %s)%s", seconds_text(at, f->limit_step),
		   seconds_text(low, f->limit_step_low), seconds_text(high, f->limit_step_high),
		   f == growth_believed(&g->total) ? "; believed" : "");
}

static void print_fit(struct emit *e, const struct stepgrowth *g, const struct growth_fit *f, const char *label)
{
	char at[HUMAN_MAX], low[HUMAN_MAX], high[HUMAN_MAX], time[HUMAN_MAX] = "";
	double left = (f->limit_step - g->reading[g->nr_readings - 1].step) * g->step_ns;

	if (!f->is_known || isnan(f->limit_step))
		return;
	if (g->is_by_time) {
		print_time_fit(e, g, f, label);
		return;
	}
	if (left > 0 && left < 1e18)
		human_ns(time, (uint64_t)left);
	emit_label(e, NULL, label, "step %s (%s to %s)%s%s%s", step_number(at, floor(f->limit_step) + 1),
		   step_number(low, floor(f->limit_step_low) + 1), step_number(high, floor(f->limit_step_high) + 1),
		   *time ? ", in " : "", time, f == growth_believed(&g->total) ? "; believed" : "");
}

static void print_cause(struct emit *e, const struct model *m, struct model_process *p,
			const struct stepgrowth_cause *c)
{
	char text[TEXT_MAX];

	emit_heading(e, "%s", growth_text(text, sizeof(text), c));
	emit_text(e, "  %s", origin_text(text, sizeof(text), m, p, c));
	emit_text(e, "  %s", class_text(text, sizeof(text), c));
	if (kept_text(text, sizeof(text), m, p, c))
		emit_text(e, "  %s", text);
}

static void print_notes(struct emit *e, const struct model_device *d, const struct stepgrowth *g)
{
	char slope[HUMAN_MAX];
	double sum = 0;

	if (g->nr_findings > FINDINGS_SHOWN)
		emit_text(e, "(%zu more that grow: --json)", g->nr_findings - FINDINGS_SHOWN);
	for (size_t i = g->nr_findings; i < g->nr_causes; i++)
		sum += g->cause[i].growth.slope;
	if (g->nr_causes > g->nr_findings)
		emit_text(e, "note: %zu place%s grow%s by %s a %s in all, %s", g->nr_causes - g->nr_findings,
			  g->nr_causes - g->nr_findings == 1 ? "" : "s", g->nr_causes - g->nr_findings == 1 ? "s" : "",
			  rate(slope, sum), unit(g), g->is_filled ? "as in loading" : "too little to matter");
	if (g->nr_findings && g->is_by_time)
		emit_text(e, "no steps of training were found: growth is by time, of the low points");
	if (g->nr_causes && !g->is_by_time && d->process->is_kept)
		emit_text(e, "steps are counted from where the recording's kept part begins");
	if (g->is_warned)
		emit_text(e, "more than --warn-growth allows");
}

/* Why there is nothing to say, or that nothing grows. */
static void print_no_finding(struct emit *e, const struct model_device *d, const struct stepgrowth *g)
{
	const char *kept = d->process->is_kept ? " kept" : "";
	char time[HUMAN_MAX];

	if (g->is_by_time && g->nr_causes)
		emit_text(e, "No steps of training were found; memory is filled, and little of it freed.");
	else if (g->is_by_time && g->total.nr_used >= 4)
		emit_text(e, "No steps of training were found; by time memory does not grow (%s).",
			  seconds_text(time, g->reading[g->nr_readings - 1].step));
	else if (g->is_by_time)
		emit_text(e, "No steps of training were found: whether memory grows by step is not known.");
	else if (g->total.nr_used < 4)
		emit_text(e, "%" PRIu32 " step%s%s: too few to tell whether memory grows.", g->nr_steps,
			  g->nr_steps == 1 ? "" : "s", kept);
	else
		emit_text(e, "Memory does not grow from step to step (%" PRIu32 " steps%s).", g->nr_steps, kept);
}

void print_stepgrowth(struct emit *e, const struct model *m, const struct model_device *d, const struct stepgrowth *g,
		      const struct stepgrowth_limits *limits)
{
	char title[TEXT_MAX];

	if (g->is_host && m->nr_processes > 1)
		emit_text(e, "host memory of process %" PRIu32, d->process->header->pid);
	else if (!g->is_host && m->nr_devices > 1)
		emit_text(e, "%s", print_device_title(title, sizeof(title), m, d));
	if (!print_stepgrowth_line(e, m, d, g, limits))
		print_no_finding(e, d, g);
	if (!isnan(stepgrowth_oom_step(g, limits))) {
		print_fit(e, g, &g->total.linear, "  linear");
		print_fit(e, g, &g->total.quadratic, "  quadratic");
	}
	if (g->nr_findings)
		emit_blank(e);
	for (size_t i = 0; i < g->nr_findings && i < FINDINGS_SHOWN; i++)
		print_cause(e, m, d->process, &g->cause[i]);
	print_notes(e, d, g);
	if (!g->is_host)
		print_passes(e, d);
	emit_blank(e);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

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

static void json_slope(struct emit *e, const struct growth *g, bool is_by_time)
{
	json_rate(e, "bytes_per_step", g->slope, !is_by_time);
	json_rate(e, "bytes_per_step_low", g->slope_low, !is_by_time);
	json_rate(e, "bytes_per_step_high", g->slope_high, !is_by_time);
	json_rate(e, "bytes_per_second", g->slope, is_by_time);
	json_rate(e, "bytes_per_second_low", g->slope_low, is_by_time);
	json_rate(e, "bytes_per_second_high", g->slope_high, is_by_time);
	emit_string(e, "shape", NULL, shape_names[g->shape]);
}

static void json_fit(struct emit *e, const char *key, const struct growth_fit *f)
{
	if (!f->is_known) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_double(e, "error_bytes", NULL, f->error_bytes);
	emit_double(e, "limit_step", NULL, f->limit_step);
	emit_double(e, "limit_step_low", NULL, f->limit_step_low);
	emit_double(e, "limit_step_high", NULL, f->limit_step_high);
	emit_object_end(e);
}

static void json_site(struct emit *e, const struct model *m, struct model_process *p, uint32_t python, uint32_t native)
{
	const struct stack_frame *frame;
	struct stack stack = { 0 };

	site_of(&stack, m, p, python, native, &frame);
	print_site_of(e, frame);
	stack_release(&stack);
}

static void json_cause_site(struct emit *e, const struct model *m, struct model_process *p,
			    const struct stepgrowth_cause *c)
{
	const struct group *group = &p->books.groups.group[c->group];

	json_site(e, m, p, group->python_stack, group->native_stack);
}

static void json_kept_by(struct emit *e, const struct model *m, struct model_process *p,
			 const struct stepgrowth_cause *c)
{
	char text[TEXT_MAX];

	if (!kept_text(text, sizeof(text), m, p, c)) {
		emit_null(e, "kept_by", NULL);
		return;
	}
	emit_object_begin(e, "kept_by", NULL);
	emit_string(e, "evidence", NULL, text);
	emit_uint(e, "freed", NULL, c->nr_freed);
	json_site(e, m, p, c->freed_stack, 0);
	emit_object_end(e);
}

static void json_cause(struct emit *e, const struct model *m, struct model_process *p, const struct stepgrowth_cause *c)
{
	emit_object_begin(e, NULL, NULL);
	emit_string(e, "class", NULL, stepgrowth_class_names[c->class]);
	emit_bool(e, "is_finding", NULL, c->is_finding);
	json_cause_site(e, m, p, c);
	json_slope(e, &c->growth, !c->first_step);
	emit_int(e, "grown_bytes", NULL, llround(c->grown_bytes));
	emit_int(e, "last_bytes", NULL, llround(c->last_bytes));
	json_step_number(e, "first_step", c->first_step ? c->first_step : NAN);
	json_rate(e, "first_seconds", c->first_s, !c->first_step);
	emit_uint(e, "kept", NULL, c->nr_kept);
	emit_uint(e, "places", NULL, c->nr_places);
	emit_string(e, "owner", NULL, owner_names[c->owner]);
	json_kept_by(e, m, p, c);
	emit_object_end(e);
}

static void json_whose(struct emit *e, const struct model_device *d)
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

void json_stepgrowth(struct emit *e, const struct model *m, const struct model_device *d, const struct stepgrowth *g,
		     const struct stepgrowth_limits *limits)
{
	const struct growth_fit *f = growth_believed(&g->total);
	double oom = g->is_by_time ? NAN : stepgrowth_oom_step(g, limits);

	emit_object_begin(e, NULL, NULL);
	json_whose(e, d);
	emit_string(e, "by", NULL, g->is_by_time ? "time" : "step");
	emit_uint(e, "steps", NULL, g->nr_steps);
	emit_uint(e, "readings", NULL, g->nr_readings);
	emit_uint(e, "warm_up_readings", NULL, g->total.nr_warm_up);
	json_slope(e, &g->total, g->is_by_time);
	emit_double(e, "limit_bytes", NULL, g->limit_bytes);
	emit_double(e, "overhead_bytes", NULL, g->overhead_bytes);
	emit_double(e, "step_ns", NULL, g->step_ns);
	emit_bool(e, "beyond_capacity", NULL, stepgrowth_is_beyond(g, limits));
	json_step_number(e, "predicted_oom_step", oom);
	json_step_number(e, "predicted_oom_step_low", isnan(oom) ? NAN : floor(f->limit_step_low) + 1);
	json_step_number(e, "predicted_oom_step_high", isnan(oom) ? NAN : floor(f->limit_step_high) + 1);
	json_rate(e, "predicted_oom_seconds", stepgrowth_oom_step(g, limits), g->is_by_time);
	emit_string(e, "believed", NULL, g->total.believes_quadratic ? "quadratic" : "linear");
	json_fit(e, "linear", &g->total.linear);
	json_fit(e, "quadratic", &g->total.quadratic);
	emit_bool(e, "warned", NULL, g->is_warned);
	emit_array_begin(e, "causes", NULL);
	for (size_t i = 0; i < g->nr_causes; i++)
		json_cause(e, m, d->process, &g->cause[i]);
	emit_array_end(e);
	emit_object_end(e);
}

void json_steps(struct emit *e, const struct model_device *d, const struct stepgrowth *g,
		const struct stepgrowth_limits *limits)
{
	emit_object_begin(e, "steps", NULL);
	emit_uint(e, "count", NULL, g->nr_steps);
	emit_bool(e, "of_kept_part", NULL, d->process->is_kept);
	json_rate(e, "growth_bytes_per_step", g->total.slope, !g->is_by_time);
	json_step_number(e, "predicted_oom_step", g->is_by_time ? NAN : stepgrowth_oom_step(g, limits));
	json_passes(e, d);
	emit_object_end(e);
}

void json_stepgrowth_findings(struct emit *e, const struct model *m, const struct model_device *d,
			      const struct stepgrowth *g)
{
	char text[TEXT_MAX];

	for (size_t i = 0; i < g->nr_findings; i++) {
		const struct stepgrowth_cause *c = &g->cause[i];

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(c->verdict));
		json_cause_site(e, m, d->process, c);
		emit_int(e, "bytes", NULL, llround(c->grown_bytes));
		emit_array_begin(e, "evidence", NULL);
		emit_string(e, NULL, NULL, growth_text(text, sizeof(text), c));
		emit_string(e, NULL, NULL, class_text(text, sizeof(text), c));
		if (kept_text(text, sizeof(text), m, d->process, c))
			emit_string(e, NULL, NULL, text);
		emit_array_end(e);
		emit_array_begin(e, "advice", NULL);
		emit_array_end(e);
		emit_object_end(e);
	}
}
