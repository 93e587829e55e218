/* SPDX-License-Identifier: MIT */
/*
 * Figures that a message lacks: each is tried with every value that it can have, and what comes out is what
 * it would decide; see oomstory.h.
 */
#include "analyzer/errortexts/oomstory.h"

#include <math.h>

#define GIB (1024.0 * 1024 * 1024)
/* Values tried: a verdict that holds for a smaller part of the range is overlooked. */
#define NR_TRIES 256
/* Bytes: how exactly it is told where one verdict ends. Figures have two decimals. */
#define EXACT (64 * 1024)

enum { CAPACITY, FREE, ALLOCATED, RESERVED }; /* in this order they are told */

static const char *const names[OOM_MISSING_MAX] = { "capacity", "free", "allocated", "reserved" };

static struct oom_figure *message_figure(struct oom_message *m, int which)
{
	struct oom_figure *const all[OOM_MISSING_MAX] = { &m->capacity, &m->free, &m->allocated,
							  &m->reserved };

	return all[which];
}

static bool is_known(const struct oom_story *s, const struct oom_message *m, int which)
{
	const struct oom_figure *const all[OOM_MISSING_MAX] = { &m->capacity, &s->free, &s->allocated,
								&s->reserved };

	return all[which]->known;
}

/* The message with one figure more. */
struct trial {
	struct oom_message message;
	struct oom_figure *figure;
};

static void trial_begin(struct trial *t, const struct oom_story *s, const struct oom_message *m, int which)
{
	t->message = *m;
	t->message.unused.known &= s->unused.known; /* one that cannot be true would stay in the way */
	t->figure = message_figure(&t->message, which);
}

static enum verdict try_value(struct trial *t, double bytes)
{
	struct oom_story s;

	*t->figure = (struct oom_figure){ .known = true, .unit = 3, .bytes = bytes };
	oom_story_judge(&s, &t->message);
	return s.nr_reasons ? s.reason[0].verdict : VERDICT_NONE;
}

/* ---- what a figure can be -------------------------------------------------------------------- */

static double bytes_or(struct oom_figure f, double otherwise)
{
	return f.known ? f.bytes : otherwise;
}

/* From *low to *high; false where the others leave it nothing, as they contradict each other. */
static bool find_bounds(const struct oom_story *s, const struct oom_message *m, int which, double *low,
			double *high)
{
	double requested = bytes_or(s->requested, 0);

	*low = 0;
	switch (which) {
	case CAPACITY: /* beyond that only more of it is held outside PyTorch */
		*low = s->reserved.bytes + s->free.bytes;
		*high = *low + 2 * requested + GIB;
		break;
	case FREE:
		*high = m->capacity.bytes - s->reserved.bytes;
		break;
	case ALLOCATED:
		*high = s->reserved.bytes;
		break;
	default:
		*low = s->allocated.bytes;
		*high = fmin(m->capacity.bytes - s->free.bytes, bytes_or(m->own, INFINITY));
	}
	return *high >= *low;
}

/* ---- what it decides ------------------------------------------------------------------------- */

static void add_outcome(struct oom_missing *missing, double from_bytes, enum verdict verdict)
{
	if (missing->nr_outcomes == OOM_OUTCOMES_MAX)
		return;
	missing->outcome[missing->nr_outcomes].from_bytes = from_bytes;
	missing->outcome[missing->nr_outcomes++].verdict = verdict;
}

/* Between two values with different verdicts: where the second's begins. */
static double find_change(struct trial *t, double low, double high, enum verdict second)
{
	while (high - low > EXACT) {
		double middle = low + (high - low) / 2;

		if (try_value(t, middle) == second)
			high = middle;
		else
			low = middle;
	}
	return high;
}

static void find_outcomes(struct oom_missing *missing, struct trial *t, double low, double high)
{
	enum verdict last = try_value(t, low);

	add_outcome(missing, low, last);
	for (int i = 1; i <= NR_TRIES; i++) {
		double before = low + (high - low) * (i - 1) / NR_TRIES,
		       at = low + (high - low) * i / NR_TRIES;
		enum verdict verdict = try_value(t, at);

		if (verdict != last)
			add_outcome(missing, find_change(t, before, at, verdict), verdict);
		last = verdict;
	}
}

/* ---- reasons that stand on it ---------------------------------------------------------------- */

static void weaken(struct oom_story *s)
{
	for (size_t i = 0; i < s->nr_reasons; i++)
		s->reason[i].is_firm = false;
}

/*
 * One figure is missing: a reason that another value would change is not firm, and none at all if it does not
 * even hold where PyTorch has nothing cached and nobody else holds anything.
 */
static void weigh_one(struct oom_story *s, int which)
{
	const struct oom_missing *missing = &s->missing[0];
	size_t plain = which == FREE || which == ALLOCATED ? missing->nr_outcomes - 1 : 0;

	if (!missing->nr_outcomes) {
		weaken(s);
		return;
	}
	if (missing->nr_outcomes > 1)
		weaken(s);
	if (s->nr_reasons && missing->outcome[plain].verdict != s->reason[0].verdict)
		s->nr_reasons = 0;
}

/* Tensors and the request alone are more than the device has. */
static bool is_proven_too_big(const struct oom_story *s, const struct oom_message *m)
{
	return oom_surely_above(s->requested, m->capacity) ||
	       oom_surely_above(oom_figure_plus(s->requested, s->allocated), m->capacity);
}

static void weigh_several(struct oom_story *s, const struct oom_message *m)
{
	size_t nr = 0;

	if (is_proven_too_big(s, m))
		return;
	for (size_t i = 0; i < s->nr_reasons; i++)
		if (s->reason[i].verdict != VERDICT_TOO_BIG)
			s->reason[nr++] = s->reason[i];
	s->nr_reasons = nr;
}

void oom_story_miss(struct oom_story *s, const struct oom_message *m)
{
	struct trial t;
	double low, high;
	int which = 0;

	if (m->wording > OOM_CUT)
		return;
	for (int i = 0; i < OOM_MISSING_MAX; i++) {
		if (is_known(s, m, i))
			continue;
		s->missing[s->nr_missing++].figure = names[i];
		which = i;
	}
	if (s->nr_missing > 1)
		weigh_several(s, m);
	if (s->nr_missing != 1)
		return;
	trial_begin(&t, s, m, which);
	if (s->requested.known && find_bounds(s, m, which, &low, &high))
		find_outcomes(&s->missing[0], &t, low, high);
	weigh_one(s, which);
}
