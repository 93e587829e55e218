/* SPDX-License-Identifier: MIT */
/* Pace and growth of steps, asked again and again while they go on. */
#include "analyzer/live/livesteps.h"

#include <math.h>

#include "analyzer/growth/growth.h"
#include "analyzer/growth/stepgrowth.h"

#define PACE_STEPS 16 /* of which the pace is the mean */
#define NS_PER_S 1e9

void livesteps_note(struct livesteps *s, const struct steps *steps, uint64_t time_ns)
{
	const struct steps_bounds *b = &steps->cycles;
	bool begins = steps->cycles.nr_bounds != s->nr_cycles || steps->named.nr_bounds != s->nr_named;

	if (!begins)
		return;
	if (steps->named.nr_bounds != s->nr_named)
		b = &steps->named;
	s->nr_cycles = steps->cycles.nr_bounds;
	s->nr_named = steps->named.nr_bounds;
	if (b->nr_bounds)
		s->mark[s->nr_marks++ % LIVESTEPS_MARKS] =
			(struct livesteps_mark){ b->ordinal[b->nr_bounds - 1], time_ns };
}

void livesteps_rise_note(struct livesteps_rise *r, const struct livesteps *s, uint64_t before_bytes, uint64_t now_bytes)
{
	if (r->nr_marks != s->nr_marks) {
		r->before[s->nr_marks % LIVESTEPS_SPANS] = r->peak_bytes - r->level_bytes;
		r->level_bytes = r->peak_bytes = before_bytes;
		r->nr_marks = s->nr_marks;
	}
	if (now_bytes > r->peak_bytes)
		r->peak_bytes = now_bytes;
}

/* The mark of a boundary; NULL: it is too long ago. */
static const struct livesteps_mark *mark_of(const struct livesteps *s, uint64_t ordinal)
{
	uint64_t nr = s->nr_marks < LIVESTEPS_MARKS ? s->nr_marks : LIVESTEPS_MARKS;

	for (uint64_t i = 1; i <= nr; i++) {
		const struct livesteps_mark *m = &s->mark[(s->nr_marks - i) % LIVESTEPS_MARKS];

		if (m->ordinal <= ordinal)
			return m;
	}
	return NULL;
}

/* Over the latest steps; where the next has been due for long, up to now. */
static double pace_of(const struct livesteps *s, const struct steps_bounds *b, uint64_t now_ns)
{
	const struct livesteps_mark *first = NULL, *last;
	uint32_t nr = 0;
	double ns, since;

	last = b->nr_bounds ? mark_of(s, b->ordinal[b->nr_bounds - 1]) : NULL;
	for (uint32_t i = 2; last && i <= b->nr_bounds && i <= PACE_STEPS + 1; i++) {
		const struct livesteps_mark *m = mark_of(s, b->ordinal[b->nr_bounds - i]);

		if (!m)
			break;
		first = m;
		nr = i - 1;
	}
	if (!first || last->time_ns <= first->time_ns)
		return NAN;
	ns = (double)(last->time_ns - first->time_ns);
	since = now_ns > last->time_ns ? (double)(now_ns - last->time_ns) : 0;
	if (since > 2 * ns / nr + 2 * NS_PER_S)
		ns += since;
	return nr / ns * NS_PER_S;
}

void livesteps_pace(struct livesteps_pace *p, const struct livesteps *s, const struct steps *steps, uint64_t now_ns)
{
	struct steps now;

	steps_now(&now, steps);
	p->nr_steps = steps_count(&now);
	p->per_second = p->nr_steps ? pace_of(s, steps_bounds(&now), now_ns) : NAN;
	steps_now_release(&now);
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* What was live on the device where steps began. */
static size_t read_steps(struct growth_reading *r, const struct replay_device *d, const struct steps *now)
{
	const struct stepsample_series *series = stepsamples_series(d->process->stepsamples, now);
	struct books *books = d->process->books;

	if (!steps_count(now) || series == &d->process->stepsamples->of[SAMPLES_WORK])
		return 0;
	for (uint32_t i = 0; i < series->nr_samples; i++) {
		const struct stepsample *s = &series->sample[i];

		r[i] = (struct growth_reading){ s->nr_steps, 0 };
		for (uint32_t k = 0; k < s->nr_parts; k++)
			if (stepgrowth_is_counted(books, books_group(books, s->part[k].group), d->ordinal))
				r[i].bytes += (double)s->part[k].bytes;
	}
	return series->nr_samples;
}

static double limit_of(const struct replay_device *d, const struct livesteps_rise *r)
{
	uint64_t rise = r->peak_bytes - r->level_bytes;

	for (int i = 0; i < LIVESTEPS_SPANS; i++)
		rise = r->before[i] > rise ? r->before[i] : rise;
	return d->capacity_bytes ? (double)d->capacity_bytes - (double)rise - stepgrowth_held_by_others(d) : NAN;
}

static void foresee(struct livesteps_growth *out, const struct growth *g, double last_step)
{
	const struct growth_fit *fit = growth_believed(g);

	if (!isfinite(fit->limit_step) || fit->limit_step <= last_step || g->limit_step_low > STEPGROWTH_HORIZON)
		return;
	out->oom_step = fit->limit_step;
	out->oom_step_low = g->limit_step_low;
	out->oom_step_high = g->limit_step_high;
}

void livesteps_growth(struct livesteps_growth *out, const struct replay_device *d, const struct livesteps_rise *r)
{
	struct growth_reading reading[STEPSAMPLES_MAX];
	struct growth g;
	struct steps now;
	size_t nr;

	*out = (struct livesteps_growth){ NAN, NAN, NAN, NAN };
	steps_now(&now, &d->process->lives->steps);
	nr = read_steps(reading, d, &now);
	steps_now_release(&now);
	if (!nr)
		return;
	growth_find(&g, reading, nr, limit_of(d, r));
	if (g.shape == GROWTH_UNKNOWN)
		return;
	out->bytes_per_step = g.shape == GROWTH_NONE ? 0 : g.slope;
	if (g.shape >= GROWTH_STEADY)
		foresee(out, &g, reading[nr - 1].step);
}
