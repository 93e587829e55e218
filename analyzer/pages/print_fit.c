/* SPDX-License-Identifier: MIT */
/* Printing what fits. */
#include "analyzer/pages/print_fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/pages/print_oom.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"

#define TEXT_MAX (2 * SENTENCE_MAX)

const char *print_fit_gpu(const struct fit_plan *plan, const struct fit_try *t)
{
	return plan->nr_gpus ? plan->gpu[t->gpu] : *t->result.gpu ? t->result.gpu : "GPU";
}

static struct said fit_said(const struct fit_result *r)
{
	struct fact used = fact_bytes("used", r->used_bytes), capacity = fact_if(r->capacity_bytes, fact_bytes("capacity", r->capacity_bytes));
	char zeros[ZERO_TEXT_MAX];

	if (r->outcome == FIT_FITS)
		return SAID(fit_fits, fact_flag("is_least", r->zero_answers), used, capacity,
			    fact_name("zeros", print_zeros(zeros, "; ", r->zero_answers)));
	if (r->outcome == FIT_TIGHT)
		return SAID(fit_is_tight, used, fact_bytes("capacity", r->capacity_bytes));
	if (r->outcome == FIT_OOM)
		return SAID(fit_runs_out_of_memory, fact_if(r->nr_steps, fact_count("steps", r->nr_steps)));
	if (r->outcome == FIT_IDLE)
		return SAID(fit_used_nothing, NO_FACTS);
	if (r->signal)
		return SAID(fit_was_ended, fact_count("signal", (uint64_t)r->signal), fact_name("name", strsignal(r->signal)));
	return SAID(fit_failed, fact_count("status", (uint64_t)r->exit_status));
}

const char *print_fit_outcome(char *buf, size_t size, const struct fit_result *r)
{
	struct said said = fit_said(r);
	char sentence[SENTENCE_MAX];

	snprintf(buf, size, "%s", sentence_text(sentence, &said));
	return buf;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef void emit_number(struct emit *e, const char *key, const char *label, uint64_t value);

/* Nothing where there is nothing to say. */
static void emit_known(struct emit *e, emit_number *number, const char *key, bool is_known, uint64_t value)
{
	if (is_known)
		number(e, key, NULL, value);
	else
		emit_null(e, key, NULL);
}

static void json_known(struct emit *e, const char *key, bool is_known, uint64_t value)
{
	emit_known(e, emit_uint, key, is_known, value);
}

static void json_categories(struct emit *e, const struct fit_result *r)
{
	if (!r->allocated_peak_bytes) {
		emit_null(e, "categories_at_peak", NULL);
		return;
	}
	emit_object_begin(e, "categories_at_peak", NULL);
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (category_has_row(i, r->category_bytes[i]))
			emit_uint(e, category_names[i], NULL, r->category_bytes[i]);
	emit_object_end(e);
}

static void json_oom(struct emit *e, const struct fit_result *r)
{
	char sentence[SENTENCE_MAX];
	struct stack_frame site = { .file = *r->file ? r->file : NULL, .line = r->line,
				    .function = *r->function ? r->function : NULL };

	if (r->outcome != FIT_OOM) {
		emit_null(e, "oom", NULL);
		return;
	}
	emit_object_begin(e, "oom", NULL);
	emit_string(e, "verdict", NULL, r->verdict);
	emit_string(e, "sentence", NULL, *sentence_text(sentence, &r->said) ? sentence : NULL);
	sentence_json(e, "facts", &r->said);
	json_known(e, "asked_bytes", r->has_autopsy, r->asked_bytes);
	emit_string(e, "phase", NULL, r->phase);
	print_site_of(e, &site);
	emit_object_end(e);
}

/* As an object of its own, or a member; t may be NULL. */
static void json_try(struct emit *e, const char *key, const struct fit_plan *plan, const struct fit_try *t)
{
	const struct fit_result *r = t ? &t->result : NULL;

	if (!t) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_string(e, "gpu", NULL, plan->nr_gpus ? plan->gpu[t->gpu] : NULL);
	emit_uint(e, "value", NULL, t->value);
	emit_string(e, "outcome", NULL, fit_outcome_names[r->outcome]);
	json_known(e, "exit_status", r->exit_status && !r->signal, (uint64_t)r->exit_status);
	json_known(e, "signal", r->signal, (uint64_t)r->signal);
	emit_bool(e, "stopped", NULL, r->is_stopped);
	emit_uint(e, "steps", NULL, r->nr_steps);
	emit_uint(e, "duration_ns", NULL, r->ns);
	emit_uint(e, "failed_requests", NULL, r->nr_ooms);
	json_known(e, "capacity_bytes", r->capacity_bytes, r->capacity_bytes);
	emit_uint(e, "allocated_peak_bytes", NULL, r->allocated_peak_bytes);
	emit_uint(e, "reserved_peak_bytes", NULL, r->reserved_peak_bytes);
	emit_uint(e, "used_peak_bytes", NULL, r->used_bytes);
	emit_bool(e, "lower_bound", NULL, r->zero_answers > 0);
	emit_uint(e, "zero_answers", NULL, r->zero_answers);
	json_categories(e, r);
	json_oom(e, r);
	emit_object_end(e);
}

/* Of a GPU: what any of its tries tells. */
static const struct fit_result *any_of(const struct fit_page *p, unsigned gpu)
{
	const struct fit_result *last = NULL;

	for (size_t i = 0; i < p->nr_tries; i++)
		if (p->tries[i]->gpu == gpu && *p->tries[i]->result.gpu)
			last = &p->tries[i]->result;
	return last;
}

static void json_gpu(struct emit *e, const struct fit_page *p, unsigned gpu)
{
	const struct fit_answer none = { 0 }, *a = p->answer ? &p->answer[gpu] : &none;
	const struct fit_result *r = any_of(p, gpu);

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "gpu", NULL, p->plan->nr_gpus ? p->plan->gpu[gpu] : NULL);
	emit_string(e, "name", NULL, r ? r->gpu : NULL);
	emit_bool(e, "simulated", NULL, p->plan->nr_gpus > 0);
	json_known(e, "capacity_bytes", r && r->capacity_bytes, r ? r->capacity_bytes : 0);
	json_known(e, "largest", a->best, a->best ? a->best->value : 0);
	json_try(e, "at_largest", p->plan, a->best);
	json_try(e, "next", p->plan, a->next);
	emit_object_end(e);
}

static void print_json(struct emit *e, const struct fit_page *p)
{
	emit_array_begin(e, "command", NULL);
	for (size_t i = 0; p->plan->program[i]; i++)
		emit_string(e, NULL, NULL, p->plan->program[i]);
	emit_array_end(e);
	json_known(e, "min", p->answer, p->min);
	json_known(e, "max", p->answer, p->max);
	json_known(e, "multiple_of", p->answer, p->multiple_of);
	emit_double(e, "headroom", NULL, p->plan->headroom);
	json_known(e, "steps", p->plan->steps >= 0, (uint64_t)p->plan->steps);
	emit_array_begin(e, "gpus", NULL);
	for (unsigned i = 0; i < (p->plan->nr_gpus ? p->plan->nr_gpus : 1); i++)
		json_gpu(e, p, i);
	emit_array_end(e);
	emit_array_begin(e, "tries", NULL);
	for (size_t i = 0; i < p->nr_tries; i++)
		if (!p->tries[i]->is_moot)
			json_try(e, NULL, p->plan, p->tries[i]);
	emit_array_end(e);
}

/* ---- text and CSV ---------------------------------------------------------------------------- */

/* What a try took until it failed is no peak. */
static void cell_bytes(struct emit *e, const char *key, bool is_known, uint64_t bytes)
{
	emit_known(e, emit_bytes, key, is_known, bytes);
}

static void print_reason(struct emit *e, const struct fit_try *t)
{
	const struct fit_result *r = &t->result;
	char text[TEXT_MAX], outcome[160], sentence[SENTENCE_MAX], lead[40], site[512] = "";
	struct stack_frame frame = { .python = true, .file = *r->file ? print_short_path(r->file) : NULL,
				     .line = r->line, .function = *r->function ? r->function : NULL };

	if (frame.file || frame.function)
		stack_frame_text(site, sizeof(site), &frame);
	print_fit_outcome(outcome, sizeof(outcome), r);
	sentence_text(sentence, &r->said);
	snprintf(text, sizeof(text), "%s%s%s", outcome, *sentence ? ": " : "", sentence);
	snprintf(lead, sizeof(lead), "%" PRIu64 ": ", t->value);
	print_wrapped(e, lead, "  ", text);
	if (*site)
		emit_text(e, "  at %s", site);
}

static const struct emit_column answer_columns[] = {
	{ "gpu", "GPU", EMIT_LEFT, false },
	{ "largest", "largest", EMIT_RIGHT, false },
	{ "allocated_peak_bytes", "allocated", EMIT_RIGHT, false },
	{ "reserved_peak_bytes", "reserved", EMIT_RIGHT, false },
	{ "used_peak_bytes", "in use", EMIT_RIGHT, false },
	{ "capacity_bytes", "of", EMIT_RIGHT, false },
	{ "free", "free", EMIT_RIGHT, true },
	{ "next", NULL, EMIT_RIGHT, false },
	{ "next_outcome", NULL, EMIT_LEFT, false },
	{ 0 },
};

static void print_answer(struct emit *e, const struct fit_page *p, unsigned gpu)
{
	const struct fit_answer *a = &p->answer[gpu];
	const struct fit_try *t = a->best ? a->best : a->next;
	const struct fit_result *r = &t->result;
	char percent[HUMAN_MAX] = "-", zeros[ZERO_TEXT_MAX];

	emit_row_begin(e);
	emit_string(e, "gpu", NULL, print_fit_gpu(p->plan, t));
	if (a->best)
		emit_uint(e, "largest", NULL, t->value);
	else
		emit_string(e, "largest", NULL, emit_is_csv(e) ? NULL : "none");
	cell_bytes(e, "allocated_peak_bytes", a->best, r->allocated_peak_bytes);
	cell_bytes(e, "reserved_peak_bytes", a->best, r->reserved_peak_bytes);
	cell_bytes(e, "used_peak_bytes", a->best, r->used_bytes);
	cell_bytes(e, "capacity_bytes", r->capacity_bytes, r->capacity_bytes);
	if (a->best && r->capacity_bytes)
		human_percent(percent, (double)(r->capacity_bytes - r->used_bytes), (double)r->capacity_bytes);
	emit_label(e, "free", NULL, "%s", percent);
	json_known(e, "next", a->next, a->next ? a->next->value : 0);
	emit_string(e, "next_outcome", NULL, a->next ? fit_outcome_names[a->next->result.outcome] : NULL);
	if (a->next)
		print_reason(e, a->next);
	else
		print_said(e, "", "  ", SAID(fit_is_largest, NO_FACTS));
	if (a->best && r->zero_answers)
		print_said(e, "", "  ", SAID(fit_at_least, fact_name("zeros", print_zeros(zeros, "; ", r->zero_answers))));
	if (a->best && r->nr_ooms)
		print_said(e, "", "  ", SAID(fit_went_on, fact_count("requests", r->nr_ooms)));
	emit_row_end(e);
}

static const struct emit_column try_columns[] = {
	{ "gpu", "GPU", EMIT_LEFT, false },
	{ "value", "value", EMIT_RIGHT, false },
	{ "outcome", "result", EMIT_LEFT, false },
	{ "steps", "steps", EMIT_RIGHT, false },
	{ "allocated_peak_bytes", "allocated", EMIT_RIGHT, false },
	{ "reserved_peak_bytes", "reserved", EMIT_RIGHT, false },
	{ "used_peak_bytes", "in use", EMIT_RIGHT, false },
	{ "duration_ns", "took", EMIT_RIGHT, false },
	{ 0 },
};

static void print_tries(struct emit *e, const struct fit_page *p)
{
	emit_blank(e);
	emit_table_begin(e, "tries", try_columns);
	for (size_t i = 0; i < p->nr_tries; i++) {
		const struct fit_try *t = p->tries[i];
		const struct fit_result *r = &t->result;
		bool is_known = r->outcome == FIT_FITS || r->outcome == FIT_TIGHT;

		if (t->is_moot)
			continue;
		emit_row_begin(e);
		emit_string(e, "gpu", NULL, print_fit_gpu(p->plan, t));
		emit_uint(e, "value", NULL, t->value);
		emit_string(e, "outcome", NULL, fit_outcome_names[r->outcome]);
		emit_uint(e, "steps", NULL, r->nr_steps);
		cell_bytes(e, "allocated_peak_bytes", is_known, r->allocated_peak_bytes);
		cell_bytes(e, "reserved_peak_bytes", is_known, r->reserved_peak_bytes);
		cell_bytes(e, "used_peak_bytes", is_known, r->used_bytes);
		emit_ns(e, "duration_ns", NULL, r->ns);
		emit_row_end(e);
	}
	emit_table_end(e);
}

/* Categories that a narrow table has columns for; the others are one. */
static const struct emit_column value_columns[] = {
	{ "gpu", "GPU", EMIT_LEFT, false },
	{ "value", "value", EMIT_RIGHT, false },
	{ "outcome", NULL, EMIT_LEFT, false },
	{ "allocated_peak_bytes", "peak", EMIT_RIGHT, false },
	{ "parameter", "weights", EMIT_RIGHT, false },
	{ "gradient", "gradient", EMIT_RIGHT, false },
	{ "optimizer_state", "optimizer", EMIT_RIGHT, false },
	{ "activation", "activation", EMIT_RIGHT, false },
	{ "rest", "other", EMIT_RIGHT, true },
	{ "input", NULL, EMIT_RIGHT, false },
	{ "workspace", NULL, EMIT_RIGHT, false },
	{ "communication", NULL, EMIT_RIGHT, false },
	{ "temporary", NULL, EMIT_RIGHT, false },
	{ "unknown", NULL, EMIT_RIGHT, false },
	{ "reserved_peak_bytes", NULL, EMIT_RIGHT, false },
	{ "used_peak_bytes", NULL, EMIT_RIGHT, false },
	{ 0 },
};

static void print_value(struct emit *e, const struct fit_page *p, const struct fit_try *t)
{
	const struct fit_result *r = &t->result;
	bool is_known = r->outcome == FIT_FITS || r->outcome == FIT_TIGHT;
	uint64_t rest = r->allocated_peak_bytes - r->category_bytes[CATEGORY_PARAMETER] -
			r->category_bytes[CATEGORY_GRADIENT] - r->category_bytes[CATEGORY_OPTIMIZER_STATE] -
			r->category_bytes[CATEGORY_ACTIVATION];

	emit_row_begin(e);
	emit_string(e, "gpu", NULL, print_fit_gpu(p->plan, t));
	emit_uint(e, "value", NULL, t->value);
	emit_string(e, "outcome", NULL, fit_outcome_names[r->outcome]);
	if (is_known || !emit_is_text(e))
		cell_bytes(e, "allocated_peak_bytes", is_known, r->allocated_peak_bytes);
	else
		emit_label(e, "allocated_peak_bytes", NULL, "%s", fit_outcome_names[r->outcome]);
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (category_has_row(i, r->category_bytes[i]))
			cell_bytes(e, category_names[i], is_known, r->category_bytes[i]);
	cell_bytes(e, "rest", is_known, rest);
	cell_bytes(e, "reserved_peak_bytes", is_known, r->reserved_peak_bytes);
	cell_bytes(e, "used_peak_bytes", is_known, r->used_bytes);
	emit_row_end(e);
}

void print_fit(struct emit *e, const struct fit_page *p)
{
	unsigned nr_gpus = p->plan->nr_gpus ? p->plan->nr_gpus : 1;

	if (emit_is_json(e)) {
		print_json(e, p);
		return;
	}
	emit_table_begin(e, "gpus", p->answer ? answer_columns : value_columns);
	for (unsigned i = 0; p->answer && i < nr_gpus; i++)
		print_answer(e, p, i);
	for (size_t i = 0; !p->answer && i < p->nr_tries; i++)
		print_value(e, p, p->tries[i]);
	emit_table_end(e);
	if (p->answer && p->verbose)
		print_tries(e, p);
}
