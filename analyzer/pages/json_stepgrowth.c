/* SPDX-License-Identifier: MIT */
/* Growth from step to step as JSON; see print_stepgrowth.h. */
#include "analyzer/pages/print_stepgrowth.h"

#include <math.h>

#include "analyzer/pages/print_growth.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_passes.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/sentence.h"
#include "analyzer/pages/stepgrowth_words.h"
#include "analyzer/purpose/namedblocks.h"

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
		json_let_go(e, only);
	}
	namegroups_release(&names);
}

static void json_cause(struct emit *e, const struct replay *m, const struct replay_device *d,
		       const struct stepgrowth_cause *c)
{
	struct replay_process *p = d->process;

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "class", NULL, stepgrowth_class_names[c->class]);
	emit_bool(e, "is_finding", NULL, c->is_finding);
	json_cause_site(e, m, p, c);
	json_caller(e, m, p, c);
	json_slope(e, &c->growth, !c->first_step);
	emit_int(e, "grown_bytes", NULL, llround(c->grown_bytes));
	emit_int(e, "last_bytes", NULL, llround(c->last_bytes));
	json_step_number(e, "first_step", c->first_step ? c->first_step : NAN);
	json_rate(e, "first_seconds", c->first_s, !c->first_step);
	emit_uint(e, "kept", NULL, c->nr_kept);
	emit_uint(e, "places", NULL, c->nr_places);
	emit_string(e, "owner", NULL, owner_names[c->owner]);
	emit_bool(e, "module_has_hook", NULL, c->has_hook);
	emit_bool(e, "follows_batch", NULL, c->follows_batch);
	emit_bool(e, "let_go", NULL, c->is_let_go);
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
	double oom = g->is_by_time ? NAN : stepgrowth_oom_step(g, limits), low, high;
	bool has_range = stepgrowth_oom_range(g, limits, &low, &high) && !g->is_by_time;

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
	json_step_number(e, "predicted_oom_step_low", has_range ? low : NAN);
	json_step_number(e, "predicted_oom_step_high", has_range ? high : NAN);
	json_rate(e, "predicted_oom_seconds", stepgrowth_oom_step(g, limits), g->is_by_time);
	emit_string(e, "believed", NULL, g->total.believes_quadratic ? "quadratic" : "linear");
	json_growth_fit(e, "linear", &g->total.linear, false);
	json_growth_fit(e, "quadratic", &g->total.quadratic, false);
	emit_bool(e, "warned", NULL, g->is_warned);
	emit_array_begin(e, "causes", NULL);
	for (size_t i = 0; i < g->nr_causes; i++)
		json_cause(e, m, d, &g->cause[i]);
	emit_array_end(e);
	emit_object_end(e);
}

void json_steps(struct emit *e, const struct replay_device *d, const struct stepgrowth *g,
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

void json_stepgrowth_findings(struct emit *e, const struct replay *m, const struct replay_device *d,
			      const struct stepgrowth *g)
{
	for (size_t i = 0; i < g->nr_findings; i++) {
		const struct stepgrowth_cause *c = &g->cause[i];
		const struct said said[] = { stepgrowth_growth(c), stepgrowth_what(c), stepgrowth_keeper(m, d->process, c) };

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(c->verdict));
		json_cause_site(e, m, d->process, c);
		json_caller(e, m, d->process, c);
		emit_int(e, "bytes", NULL, llround(c->grown_bytes));
		sentence_json_texts(e, "evidence", said, sizeof(said) / sizeof(*said));
		sentence_json(e, "facts", &said[0]);
		sentence_json_facts(e, "evidence_facts", said + 1, sizeof(said) / sizeof(*said) - 1);
		emit_array_begin(e, "advice", NULL);
		emit_array_end(e);
		json_cause_name(e, d, c);
		emit_object_end(e);
	}
}
