/* SPDX-License-Identifier: MIT */
/* Judging footprints. */
#include "analyzer/gate/rulings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const verdict_names[] = { "pass", "fail", "unknown" };

void verdict_release(struct verdict *v)
{
	compare_release(&v->compare);
	free(v->ruling);
	*v = (struct verdict)VERDICT_INIT;
}

/* The first reason stays. */
static void __attribute__((format(printf, 2, 3))) cannot_tell(struct verdict *v, const char *format, ...)
{
	va_list args;

	if (*v->reason)
		return;
	va_start(args, format);
	vsnprintf(v->reason, sizeof(v->reason), format, args);
	va_end(args);
}

/* ---- single limits --------------------------------------------------------------------------- */

static void add_ruling(struct verdict *v, struct ruling ruling)
{
	ruling.is_broken = ruling.actual > ruling.allowed;
	v->nr_broken += ruling.is_broken;
	v->ruling[v->nr_rulings++] = ruling;
}

/* What a limit is compared with; false if the device does not have it. */
static bool actual_of(const struct footprint_device *d, enum limit_kind kind, enum category category,
		      struct ruling *r)
{
	static const enum footprint_figure figures[] = { [LIMIT_PEAK] = FIGURE_PEAK,
							 [LIMIT_RESERVED] = FIGURE_RESERVED,
							 [LIMIT_DEVICE_USED] = FIGURE_DEVICE_USED };

	switch (kind) {
	case LIMIT_CATEGORY:
		r->of = category_names[category];
		for (uint32_t i = 0; i < d->nr_parts[BY_CATEGORY]; i++)
			if (!strcmp(d->part[BY_CATEGORY][i].name, r->of))
				r->actual = d->part[BY_CATEGORY][i].bytes;
		return d->nr_parts[BY_CATEGORY] > 0 && !d->peak_is_past;
	case LIMIT_GROWTH:
	case LIMIT_NO_LEAKS:
		r->of = "growth per step";
		r->is_of_growth = true;
		if (d->growth > 0 && (kind == LIMIT_GROWTH || d->leaks))
			r->actual = (uint64_t)(d->growth + 0.5);
		if (kind == LIMIT_GROWTH || d->has_tensors)
			return d->has_growth;
		r->of = footprint_figures[FIGURE_LIVE_AT_END].title;
		r->actual = d->figure[FIGURE_LIVE_AT_END];
		return true;
	case LIMIT_FRAGMENTATION:
		r->of = "fragmentation";
		r->unit = UNIT_HUNDREDTHS;
		r->actual = d->unused_at_peak > 0 ? (uint64_t)(d->unused_at_peak * 10000 + 0.5) : 0;
		return d->unused_at_peak >= 0;
	case LIMIT_NO_OOM:
		r->of = "unhandled out of memory";
		r->unit = UNIT_COUNT;
		r->actual = d->unhandled_oom;
		return true;
	case LIMIT_ANY_OOM:
		r->of = "out of memory";
		r->unit = UNIT_COUNT;
		r->actual = d->ooms;
		return true;
	default:
		r->of = footprint_figures[figures[kind]].title;
		r->actual = d->figure[figures[kind]];
		return true;
	}
}

static void judge_kind(struct verdict *v, const struct verdict_query *q, const struct footprint_device *d,
		       enum limit_kind kind, enum category category)
{
	const struct limit *limit = limits_of(q->limits, kind, category, d);
	struct ruling r = { .limit = limit_names[kind], .device = d };
	bool is_oom = kind == LIMIT_NO_OOM || kind == LIMIT_ANY_OOM;
	char name[64];

	/* A program that failed says nothing of its memory, but for whether that was why. */
	if (!limit || (q->obstacle && !is_oom))
		return;
	if (!actual_of(d, kind, category, &r)) {
		cannot_tell(v, "%s does not apply to %s: %s", limit->origin,
			    footprint_device_name(name, sizeof(name), d),
			    kind == LIMIT_FRAGMENTATION ? "nothing was reserved" :
			    d->peak_is_past && kind == LIMIT_CATEGORY ?
							  "the peak was before what the recording keeps" :
			    kind == LIMIT_CATEGORY	? "no tensors were allocated" :
							  "there are too few steps");
		return;
	}
	r.origin = limit->origin;
	r.allowed = limit->most;
	add_ruling(v, r);
}

static void judge_device(struct verdict *v, const struct verdict_query *q, const struct footprint_device *d)
{
	for (int kind = 0; kind < NR_LIMIT_KINDS; kind++)
		for (int i = 0; i < (kind == LIMIT_CATEGORY ? NR_CATEGORIES : 1); i++)
			judge_kind(v, q, d, (enum limit_kind)kind, (enum category)i);
}

/* ---- the baseline ---------------------------------------------------------------------------- */

static void judge_growth(struct verdict *v, const struct verdict_query *q, const struct compare_device *d)
{
	for (int i = 0; i < NR_FIGURES; i++) {
		uint64_t before = d->before->figure[i];

		if (!footprint_figures[i].is_steady)
			continue;
		add_ruling(v, (struct ruling){ .limit = "baseline",
					       .of = footprint_figures[i].title,
					       .origin = q->baseline->path,
					       .device = d->after,
					       .actual = d->after->figure[i],
					       .allowed = before + tolerance_of(&q->limits->tolerance, before),
					       .has_before = true,
					       .before = before });
	}
}

/* It is of something else: said with all that differs. */
static void refuse_baseline(struct verdict *v, const struct verdict_query *q)
{
	char text[sizeof(v->reason)];
	size_t n = 0;

	for (uint32_t i = 0; i < v->compare.nr_facts && n < sizeof(text); i++) {
		const struct compare_fact *f = &v->compare.fact[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s: %s there, %s here", i ? "; " : "", f->what,
				      f->before, f->after);
	}
	cannot_tell(v, "baseline '%.200s' is of something else (%.700s); --force compares all the same",
		    q->baseline->path, text);
}

int verdict_find(struct verdict *v, const struct verdict_query *q)
{
	const struct footprint *now = q->now;
	const struct limit *idle = limits_idle(q->limits, now);
	int err = 0;

	*v = (struct verdict){ .zero_answers = q->zero_answers };
	v->ruling = calloc((size_t)now->nr_devices * (NR_LIMIT_KINDS + NR_CATEGORIES + NR_FIGURES) + 1, sizeof(*v->ruling));
	if (!v->ruling)
		return TFMT_E_NOMEM;
	if (q->obstacle)
		cannot_tell(v, "%s", q->obstacle);
	else if (idle)
		cannot_tell(v, "no GPU of the recording is meant by a limit in %s", idle->origin);
	if (q->baseline && !q->obstacle) {
		err = compare_footprints(&v->compare, q->baseline, now);
		v->is_compared = !v->compare.nr_facts || q->limits->force;
		if (!v->is_compared)
			refuse_baseline(v, q);
	}
	for (uint32_t i = 0; i < now->nr_devices && !err; i++) {
		const struct compare_device *d = v->is_compared ? compare_of(&v->compare, &now->device[i]) : NULL;

		judge_device(v, q, &now->device[i]);
		if (d)
			judge_growth(v, q, d);
	}
	if (q->loss && !v->nr_broken)
		cannot_tell(v, "%s: figures are \"at least\"", q->loss);
	if (!v->nr_rulings && !*v->reason)
		cannot_tell(v, "the recording has nothing that the limits are about");
	v->status = v->nr_broken ? VERDICT_BROKEN : *v->reason ? VERDICT_UNKNOWN : VERDICT_KEPT;
	return err;
}

/* ---- blame ----------------------------------------------------------------------------------- */

bool verdict_is_broken(const struct verdict *v, const struct footprint_device *d)
{
	for (size_t i = 0; i < v->nr_rulings; i++)
		if (v->ruling[i].is_broken && v->ruling[i].device == d)
			return true;
	return false;
}

static int by_bytes(const void *va, const void *vb)
{
	const struct compare_stack *a = va, *b = vb;

	if (a->grown_bytes != b->grown_bytes)
		return a->grown_bytes < b->grown_bytes ? 1 : -1;
	return footprint_compare_stacks(a->after, b->after);
}

enum blame verdict_blames(const struct verdict *v, const struct footprint_device *d)
{
	if (v->is_compared && compare_of(&v->compare, d))
		return BLAME_GREW;
	for (size_t i = 0; i < v->nr_rulings && d->nr_growing; i++)
		if (v->ruling[i].is_broken && v->ruling[i].device == d && v->ruling[i].is_of_growth)
			return BLAME_LEAVES;
	return BLAME_HOLDS;
}

struct compare_stack *verdict_blame(const struct verdict *v, const struct footprint_device *d, uint32_t *nr)
{
	enum blame blame = verdict_blames(v, d);
	const struct compare_device *c = blame == BLAME_GREW ? compare_of(&v->compare, d) : NULL;
	const struct footprint_stack *stack = blame == BLAME_LEAVES ? d->growing : d->stack;
	uint32_t nr_stacks = c ? c->nr_stacks : blame == BLAME_LEAVES ? d->nr_growing : d->nr_stacks, found = 0;
	struct compare_stack *row = calloc((size_t)nr_stacks + 1, sizeof(*row));

	if (!row)
		return NULL;
	if (c) {
		while (found < nr_stacks && c->stack[found].grown_bytes > 0) {
			row[found] = c->stack[found];
			found++;
		}
	} else {
		for (; found < nr_stacks; found++)
			row[found] = (struct compare_stack){ NULL, &stack[found], (int64_t)stack[found].bytes };
		if (found)
			qsort(row, found, sizeof(*row), by_bytes);
	}
	if (found < *nr)
		*nr = found;
	return row;
}
