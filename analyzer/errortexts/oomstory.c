/* SPDX-License-Identifier: MIT */
/* Why an allocation failed, by the figures of PyTorch's message alone; see oomstory.h. */
#include "analyzer/errortexts/oomstory.h"

#include <math.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/errortexts/errortexts_thresholds.h"

#define TWO_TO_64 18446744073709551616.0

static const struct oom_figure zero = { .known = true };

bool oom_surely_above(struct oom_figure a, struct oom_figure b)
{
	return a.known && b.known && a.bytes - a.slack > b.bytes + b.slack;
}

bool oom_maybe_above(struct oom_figure a, struct oom_figure b)
{
	return a.known && b.known && a.bytes + a.slack > b.bytes - b.slack;
}

/* Within the figures' rounding, a >= b. */
static bool covers(struct oom_figure a, struct oom_figure b)
{
	return a.known && b.known && a.bytes >= b.bytes;
}

/* ---- what cannot be true --------------------------------------------------------------------- */

static void add_absurd(struct oom_story *s, const char *name, enum oom_absurdity why, struct oom_figure value)
{
	if (s->nr_absurd == OOM_ABSURD_MAX)
		return;
	s->absurd[s->nr_absurd].figure = name;
	s->absurd[s->nr_absurd].why = why;
	s->absurd[s->nr_absurd].value = value;
	s->absurd[s->nr_absurd].truth = value;
	if (why == OOM_ABSURD_NEGATIVE)
		s->absurd[s->nr_absurd].truth.bytes = value.bytes - TWO_TO_64;
	s->nr_absurd++;
}

/* A figure as it is, or unknown where it is a negative number's bits, or more than 64 bits can count. */
static struct oom_figure believable(struct oom_story *s, const char *name, struct oom_figure f)
{
	if (f.known && f.bytes + f.slack >= TWO_TO_64 / 2) {
		add_absurd(s, name, f.bytes - f.slack > TWO_TO_64 ? OOM_ABSURD_BEYOND : OOM_ABSURD_NEGATIVE, f);
		f.known = false;
	}
	return f;
}

static void compare_figures(struct oom_story *s, const struct oom_message *m)
{
	if (s->requested.known && s->requested.bytes > REQUEST_MAX_BYTES)
		add_absurd(s, "requested", OOM_ABSURD_REQUEST, s->requested);
	if (oom_surely_above(s->free, m->capacity)) {
		add_absurd(s, "free", OOM_ABSURD_FREE, s->free);
		s->free.known = s->outside.known = false;
	}
	if (m->wording == OOM_FIELDS && oom_surely_above(s->allocated, s->reserved)) {
		add_absurd(s, "allocated", OOM_ABSURD_ALLOCATED, s->allocated);
		s->allocated.known = s->unused.known = false;
	}
	if (oom_surely_above(s->reserved, m->capacity)) {
		add_absurd(s, "reserved", OOM_PAGED, s->reserved);
		s->outside.known = false;
	}
}

/* ---- whose memory ---------------------------------------------------------------------------- */

/*
 * The one listed process that may be this one: in a container NVML knows it by a pid that it does not know
 * itself, and PyTorch lists it among the others.
 */
static const struct oom_process *find_self(const struct oom_story *s, const struct oom_message *m)
{
	const struct oom_process *self = NULL;

	if (m->own.known || !s->reserved.known)
		return NULL;
	for (size_t i = 0; i < m->nr_processes; i++) {
		if (!oom_maybe_above(m->process[i].used, s->reserved))
			continue;
		if (self)
			return NULL;
		self = &m->process[i];
	}
	return self;
}

static void divide_outside(struct oom_story *s, const struct oom_message *m)
{
	struct oom_figure own = believable(s, "process", m->own), listed = zero;

	s->self = find_self(s, m);
	if (s->self)
		own = s->self->used;
	for (size_t i = 0; i < m->nr_processes; i++) {
		struct oom_figure used = m->process[i].used;

		if (&m->process[i] == s->self)
			continue;
		/* What NVML does not know it may give as 2^64 - 1. */
		used = believable(s, "another process", used);
		if (!used.known)
			continue;
		s->others = s->others.known ? oom_figure_plus(s->others, used) : used;
		listed = oom_figure_plus(listed, used);
	}
	s->own_outside = oom_figure_minus(own, s->reserved);
	s->own_outside.known &= s->own_outside.bytes + s->own_outside.slack >= 0;
	if (s->own_outside.known)
		s->unlisted = oom_figure_minus(s->outside, oom_figure_plus(s->own_outside, listed));
	else if (s->others.known)
		s->unlisted = oom_figure_minus(s->outside, s->others);
}

/* ---- reasons --------------------------------------------------------------------------------- */

static void add_reason(struct oom_story *s, enum verdict verdict, double bytes, bool is_firm)
{
	for (size_t i = 0; i < s->nr_reasons; i++)
		if (s->reason[i].verdict == verdict)
			return;
	if (s->nr_reasons < OOM_REASONS_MAX)
		s->reason[s->nr_reasons++] = (struct oom_reason){ verdict, bytes, is_firm };
}

/* Reserved bytes that no tensor has would have been enough, alone or with what was free. */
static void find_fragmentation(struct oom_story *s)
{
	struct oom_figure within = oom_figure_plus(s->unused, s->free);

	s->is_full = s->unused_share < FRAGMENTED_LEAST;
	if (s->is_full)
		return;
	/* The driver had enough for a new segment, and no limit was in the way: a little unused, as nearly always, does not explain it. */
	if (!s->nr_reasons && s->lacking.known && s->lacking.bytes <= 0 && s->unused_share < FRAGMENTED_MUCH)
		return;
	if (covers(s->unused, s->requested))
		add_reason(s, VERDICT_FRAGMENTATION, s->unused.bytes,
			   oom_surely_above(s->unused, s->requested));
	else if (s->lacking.bytes > 0 && s->unused.bytes > 0 && covers(within, s->requested))
		add_reason(s, VERDICT_FRAGMENTATION, s->unused.bytes, oom_surely_above(within, s->requested));
}

/* A little unused, as nearly always, comes after others that hold many times that. */
static void order_reasons(struct oom_story *s)
{
	struct oom_reason first = s->reason[0];

	if (s->nr_reasons < 2 || first.verdict != VERDICT_FRAGMENTATION || s->unused_share >= FRAGMENTED_MUCH ||
	    s->reason[1].verdict != VERDICT_OTHER_PROCESS || s->reason[1].bytes < OTHERS_MUCH * first.bytes)
		return;
	s->reason[0] = s->reason[1];
	s->reason[1] = first;
}

/* Others, or this process's libraries, hold what was lacking, beyond what every context takes. */
static void find_outside_reasons(struct oom_story *s)
{
	struct oom_figure context = { true, 0, CONTEXT_MAX_BYTES, 0 }, spare;

	if (s->others.known) {
		if (covers(s->others, s->lacking))
			add_reason(s, VERDICT_OTHER_PROCESS, s->others.bytes,
				   oom_surely_above(s->others, s->lacking));
		spare = oom_figure_minus(s->own_outside.known ? s->own_outside : s->unlisted, context);
	} else {
		spare = oom_figure_minus(s->own_outside.known ? s->own_outside : s->outside, context);
	}
	if (covers(spare, s->lacking))
		add_reason(s, VERDICT_NON_TORCH, spare.bytes + CONTEXT_MAX_BYTES,
			   oom_surely_above(spare, s->lacking));
	/* Held by processes that the list leaves out: of another container, or of another user. */
	if (s->own_outside.known && covers(oom_figure_minus(s->unlisted, context), s->lacking))
		add_reason(s, VERDICT_OTHER_PROCESS, s->unlisted.bytes, false);
}

static void find_reasons(struct oom_story *s, const struct oom_message *m)
{
	bool is_limited = s->limit_lacking.known && s->limit_lacking.bytes + s->limit_lacking.slack > 0;

	if (s->requested.known && m->capacity.known && oom_surely_above(s->requested, m->capacity)) {
		add_reason(s, VERDICT_TOO_BIG, s->requested.bytes, true);
		return;
	}
	/* The driver had enough, so that nothing else explains it. */
	if (is_limited && s->lacking.known && s->lacking.bytes <= 0)
		add_reason(s, VERDICT_USER_LIMIT, fmax(0, s->limit_lacking.bytes),
			   oom_surely_above(s->free, s->requested));
	if (s->requested.known)
		find_fragmentation(s);
	if (!s->lacking.known && oom_surely_above(s->least_lacking, zero)) /* by tensors and cache alone */
		add_reason(s, VERDICT_TOO_BIG, s->least_lacking.bytes, true);
	if (!s->lacking.known || s->lacking.bytes <= 0)
		return;
	find_outside_reasons(s);
	order_reasons(s);
	if (!s->nr_reasons && s->allocated.known)
		add_reason(s, VERDICT_TOO_BIG, s->lacking.bytes, oom_surely_above(s->lacking, zero));
	if (is_limited)
		add_reason(s, VERDICT_USER_LIMIT, fmax(0, s->limit_lacking.bytes),
			   oom_surely_above(s->limit_lacking, zero));
}

/* Requests that share a segment ask the driver for all of it: the tensor is smaller than what was asked. */
static void size_tensor(struct oom_story *s)
{
	if (!s->requested.known || s->requested.unit != 2)
		return;
	if (s->requested.bytes == TORCH_SMALL_SEGMENT) {
		s->tensor_min = 1;
		s->tensor_max = TORCH_SMALL_MAX;
	} else if (s->requested.bytes == TORCH_LARGE_SEGMENT) {
		s->tensor_min = TORCH_SMALL_MAX + 1;
		s->tensor_max = TORCH_LARGE_MIN - 1;
	}
}

static void read_figures(struct oom_story *s, const struct oom_message *m)
{
	s->requested = believable(s, "requested", m->requested);
	s->free = believable(s, "free", m->free);
	s->allocated = believable(s, "allocated", m->allocated);
	s->reserved = believable(s, "reserved", m->reserved);
	s->unused = believable(s, "unused", m->unused);
	if (!m->reserved.known)
		s->reserved = oom_figure_plus(s->allocated, s->unused);
	else if (!m->unused.known)
		s->unused = oom_figure_minus(s->reserved, s->allocated);
}

void oom_story_judge(struct oom_story *s, const struct oom_message *m)
{
	struct oom_figure allowed = m->allowed;

	*s = (struct oom_story){ .unused_share = NAN, .largest_fit = NAN };
	read_figures(s, m);
	/* Without a limit the asynchronous backend prints the largest number there is. */
	s->is_no_limit = m->allowed.known && m->allowed.bytes + m->allowed.slack >= TWO_TO_64;
	allowed.known &= !s->is_no_limit;

	s->outside = oom_figure_minus(oom_figure_minus(m->capacity, s->free), s->reserved);
	compare_figures(s, m);
	s->lacking = oom_figure_minus(s->requested, s->free);
	s->least_lacking = oom_figure_minus(oom_figure_plus(s->requested, s->reserved), m->capacity);
	s->limit_lacking = oom_figure_minus(
		oom_figure_plus(s->requested, s->reserved.known ? s->reserved : s->allocated), allowed);
	if (s->unused.known && s->reserved.known && s->reserved.bytes > 0)
		s->unused_share = s->unused.bytes / s->reserved.bytes;
	divide_outside(s, m);
	size_tensor(s);
	if (s->free.known)
		s->largest_fit = s->free.bytes;
	if (allowed.known && s->reserved.known && !(s->largest_fit < allowed.bytes - s->reserved.bytes))
		s->largest_fit = fmax(0, allowed.bytes - s->reserved.bytes);
	if (m->wording == OOM_HOST)
		add_reason(s, VERDICT_HOST_OOM, s->requested.known ? s->requested.bytes : 0, true);
	else if (m->wording == OOM_FIELDS || m->wording == OOM_SENTENCES || m->wording == OOM_ASYNC)
		find_reasons(s, m);
}

void oom_story_tell(struct oom_story *s, const struct oom_message *m)
{
	oom_story_judge(s, m);
	oom_story_miss(s, m);
}
