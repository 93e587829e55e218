/* SPDX-License-Identifier: MIT */
#include "analyzer/oom/autopsy_rank.h"

#include <string.h>

#include "analyzer/oom/oom_thresholds.h"

static uint64_t weight(const struct autopsy_finding *f)
{
	return f->bytes << f->certainty;
}

static bool comes_before(const struct autopsy_finding *f, const struct autopsy_finding *other)
{
	return f->kind != other->kind ? f->kind < other->kind : weight(f) > weight(other);
}

/* Move one of the findings to an earlier place; those between go on by one. */
static void move_up(struct autopsy_finding *finding, unsigned from, unsigned to)
{
	struct autopsy_finding one = finding[from];

	memmove(&finding[to + 1], &finding[to], (from - to) * sizeof(*finding));
	finding[to] = one;
}

/*
 * The batch that is out of line, where that is why what else was found is so large: earlier steps had that as well, and went
 * through. Else the first.
 */
static unsigned before_what_follows(const struct autopsy *a, unsigned first)
{
	const struct autopsy_finding *f = &a->finding[first];

	for (unsigned i = 0; i < a->nr_findings && f->of_batch; i++)
		if (a->finding[i].is_out_of_line && a->finding[i].bytes >= f->bytes)
			return i;
	return first;
}

/*
 * What is held is not why memory is short where more than all that tensors hold lies unused, or is others'; nor where that is a good
 * part of outputs that may be kept on purpose: nobody has a use for it. Else the first.
 */
static unsigned before_what_is_less(const struct autopsy *a, unsigned first)
{
	const struct autopsy_finding *held = &a->finding[first];
	uint64_t least = held->may_be_meant ? held->bytes / MEANT_PART : a->failure->allocated;
	unsigned most = first;

	for (unsigned i = 0; i < a->nr_findings && held->kind == AUTOPSY_HELD; i++) {
		const struct autopsy_finding *f = &a->finding[i];

		if (f->kind == AUTOPSY_WASTE && f->certainty == CERTAINTY_PROVEN && f->bytes > least &&
		    (most == first || f->bytes > a->finding[most].bytes))
			most = i;
	}
	return most;
}

/*
 * A rank that was ahead when its step began fails for that, and not for its sum, which the others have been through; that is
 * told beside it.
 */
static unsigned find_verdict(struct autopsy *a)
{
	unsigned first = 0, ahead, followed;

	for (unsigned i = 1; i < a->nr_findings; i++)
		if (comes_before(&a->finding[i], &a->finding[first]))
			first = i;
	followed = first;
	first = before_what_is_less(a, before_what_follows(a, first));
	a->finding[followed].is_beside |= followed != first;
	ahead = first;
	for (unsigned i = 0; i < a->nr_findings && a->finding[first].verdict == VERDICT_TOO_BIG; i++)
		if (a->finding[i].comes_first)
			ahead = i;
	a->finding[first].is_beside |= ahead != first;
	return ahead;
}

/* Has a census seen most of it, and who keeps it? */
static bool is_seen_kept(const struct autopsy_finding *f)
{
	const struct namegroup *g = f->named;
	struct keeper nearest;

	return g && g->is_named && g->named.name.root != ROOT_NATIVE &&
	       (SEEN_PART * f->named_bytes >= f->bytes || (f->verdict == VERDICT_GRAPH_RETENTION && g->named.has_node)) &&
	       objectname_keepers(&nearest, 1, g->named.census->census, g->named.object);
}

void autopsy_judge(const struct autopsy *a, struct autopsy_finding *f)
{
	if (f->kind != AUTOPSY_HELD || f->certainty == CERTAINTY_PROVEN)
		return;
	if (is_seen_kept(f))
		f->certainty = CERTAINTY_PROVEN;
	else if (a->device->process->names)
		f->certain_with = SAID(certain_with_keeper, NO_FACTS);
	else
		f->certain_with = SAID(certain_with_names, NO_FACTS);
}

/* The figure that decided. */
static struct said say_aside(const struct autopsy_finding *f, const struct autopsy_finding *verdict)
{
	struct fact cause = fact_name("cause", f->cause), certainty = fact_name("certainty", certainty_name(f->certainty));
	struct fact bytes = fact_bytes("bytes", f->bytes), most = fact_bytes("verdict", verdict->bytes);

	if (f->kind != verdict->kind && verdict->kind == AUTOPSY_HELD)
		return SAID(aside_after_held, cause, certainty, bytes, most);
	if (f->kind != verdict->kind && verdict->kind == AUTOPSY_WASTE)
		return SAID(aside_after_waste, cause, certainty, bytes, most);
	if (f->kind != verdict->kind)
		return SAID(aside_after_limit, cause, certainty, bytes);
	if (f->bytes == verdict->bytes)
		return SAID(aside_same, cause, certainty, bytes);
	return SAID(aside_less, cause, certainty, bytes, most, fact_name("verdict_certainty", certainty_name(verdict->certainty)));
}

void autopsy_rank(struct autopsy *a)
{
	struct autopsy_finding *f = a->finding;
	unsigned nr = 1;

	if (!a->nr_findings)
		return;
	move_up(f, find_verdict(a), 0);
	for (unsigned i = 1; i < a->nr_findings; i++) {
		unsigned to = nr;

		if (!f[i].is_beside || nr == AUTOPSY_FINDINGS_MAX) {
			if (f[i].kind != AUTOPSY_SUM)
				autopsy_set_aside(a, say_aside(&f[i], f));
			continue;
		}
		while (to > 1 && f[i].bytes > f[to - 1].bytes)
			to--;
		move_up(f, i, to);
		nr++;
	}
	a->nr_findings = nr;
}
