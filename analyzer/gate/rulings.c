/* SPDX-License-Identifier: MIT */
/* Judging footprints. */
#include "analyzer/gate/rulings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

const char *const rulings_status_names[] = { "pass", "fail", "unknown" };

void rulings_release(struct rulings *all)
{
	compare_release(&all->compare);
	free(all->ruling);
	*all = (struct rulings)RULINGS_INIT;
}

/* The first reason stays. */
static void __attribute__((format(printf, 2, 3))) cannot_tell(struct rulings *all, const char *format, ...)
{
	va_list args;

	if (*all->reason)
		return;
	va_start(args, format);
	vsnprintf(all->reason, sizeof(all->reason), format, args);
	va_end(args);
}

/* ---- single limits --------------------------------------------------------------------------- */

static void add_ruling(struct rulings *all, struct ruling ruling)
{
	ruling.is_broken = ruling.actual > ruling.allowed;
	all->nr_broken += ruling.is_broken;
	all->ruling[all->nr_rulings++] = ruling;
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

static void rule_on_kind(struct rulings *all, const struct rulings_query *q, const struct footprint_device *d,
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
		cannot_tell(all, "%s does not apply to %s: %s", limit->origin,
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
	add_ruling(all, r);
}

static void rule_on_device(struct rulings *all, const struct rulings_query *q, const struct footprint_device *d)
{
	for (int kind = 0; kind < NR_LIMIT_KINDS; kind++)
		for (int i = 0; i < (kind == LIMIT_CATEGORY ? NR_CATEGORIES : 1); i++)
			rule_on_kind(all, q, d, (enum limit_kind)kind, (enum category)i);
}

/* ---- the baseline ---------------------------------------------------------------------------- */

static void rule_on_growth(struct rulings *all, const struct rulings_query *q, const struct compare_device *d)
{
	for (int i = 0; i < NR_FIGURES; i++) {
		uint64_t before = d->before->figure[i];

		if (!footprint_figures[i].is_steady)
			continue;
		add_ruling(all, (struct ruling){ .limit = "baseline",
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
static void refuse_baseline(struct rulings *all, const struct rulings_query *q)
{
	char text[sizeof(all->reason)];
	size_t n = 0;

	for (uint32_t i = 0; i < all->compare.nr_facts && n < sizeof(text); i++) {
		const struct compare_fact *f = &all->compare.fact[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s: %s there, %s here", i ? "; " : "", f->what,
				      f->before, f->after);
	}
	cannot_tell(all, "baseline '%.200s' is of something else (%.700s); --force compares all the same",
		    q->baseline->path, text);
}

void rulings_find(struct rulings *all, const struct rulings_query *q)
{
	const struct footprint *now = q->now;
	const struct limit *idle = limits_idle(q->limits, now);

	*all = (struct rulings){ .zero_answers = q->zero_answers };
	all->ruling = heap_alloc((size_t)now->nr_devices * (NR_LIMIT_KINDS + NR_CATEGORIES + NR_FIGURES),
				 sizeof(*all->ruling));
	if (q->obstacle)
		cannot_tell(all, "%s", q->obstacle);
	else if (idle)
		cannot_tell(all, "no GPU of the recording is meant by a limit in %s", idle->origin);
	if (q->baseline && !q->obstacle) {
		compare_footprints(&all->compare, q->baseline, now);
		all->is_compared = !all->compare.nr_facts || q->limits->force;
		if (!all->is_compared)
			refuse_baseline(all, q);
	}
	for (uint32_t i = 0; i < now->nr_devices; i++) {
		const struct compare_device *d = all->is_compared ? compare_of(&all->compare, &now->device[i]) : NULL;

		rule_on_device(all, q, &now->device[i]);
		if (d)
			rule_on_growth(all, q, d);
	}
	if (q->loss && !all->nr_broken)
		cannot_tell(all, "%s: figures are \"at least\"", q->loss);
	if (!all->nr_rulings && !*all->reason)
		cannot_tell(all, "the recording has nothing that the limits are about");
	all->status = all->nr_broken ? RULINGS_BROKEN : *all->reason ? RULINGS_UNKNOWN : RULINGS_KEPT;
}

/* ---- blame ----------------------------------------------------------------------------------- */

bool rulings_is_broken(const struct rulings *all, const struct footprint_device *d)
{
	for (size_t i = 0; i < all->nr_rulings; i++)
		if (all->ruling[i].is_broken && all->ruling[i].device == d)
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

enum blame rulings_blame_kind(const struct rulings *all, const struct footprint_device *d)
{
	if (all->is_compared && compare_of(&all->compare, d))
		return BLAME_GREW;
	for (size_t i = 0; i < all->nr_rulings && d->nr_growing; i++)
		if (all->ruling[i].is_broken && all->ruling[i].device == d && all->ruling[i].is_of_growth)
			return BLAME_LEAVES;
	return BLAME_HOLDS;
}

struct compare_stack *rulings_blame(const struct rulings *all, const struct footprint_device *d, uint32_t *nr)
{
	enum blame blame = rulings_blame_kind(all, d);
	const struct compare_device *c = blame == BLAME_GREW ? compare_of(&all->compare, d) : NULL;
	const struct footprint_stack *stack = blame == BLAME_LEAVES ? d->growing : d->stack;
	uint32_t nr_stacks = c ? c->nr_stacks : blame == BLAME_LEAVES ? d->nr_growing : d->nr_stacks, found = 0;
	struct compare_stack *row = heap_alloc(nr_stacks, sizeof(*row));

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
