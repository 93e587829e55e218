/* SPDX-License-Identifier: MIT */
/* Why an allocation failed, in words; see print_oom.h. */
#include "analyzer/pages/print_oom.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/pages/print_oom_figures.h"
#include "analyzer/pages/print_said.h"

#define SENTENCES_MAX 8
#define PAGE_LINES 24
#define FIGURE_MAX 64

/* ---- what is said ---------------------------------------------------------------------------- */

struct sentences {
	size_t nr;
	struct said said[SENTENCES_MAX];
};

static void say(struct sentences *to, struct said said)
{
	if (to->nr < SENTENCES_MAX)
		to->said[to->nr++] = said;
}

/* Bytes, shown as the text of the error has them; what cannot be true may be more than a number of bytes can be, and is text alone. */
static struct fact fact_figure(const char *key, struct oom_figure f)
{
	char text[32];

	print_oom_figure(text, f);
	return fabs(f.bytes) < 0x1p63 ? fact_as(fact_signed_bytes(key, llround(f.bytes)), text) : fact_name(key, text);
}

/* The same of a figure that was computed: between which two it lies. */
static struct fact fact_range(const char *key, struct oom_figure f)
{
	char text[FIGURE_MAX];

	return fact_as(fact_figure(key, f), print_oom_range(text, f));
}

/* "6.25%": with two decimals. */
static struct fact fact_percent(const char *key, double share)
{
	char text[FIGURE_MAX];

	snprintf(text, sizeof(text), "%.2f%%", 100 * share);
	return fact_as(fact_share(key, share, 1), text);
}

static void say_largest_process(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	const struct oom_process *largest = NULL;

	for (size_t i = 0; i < m->nr_processes; i++)
		if (&m->process[i] != s->self && m->process[i].used.bytes <= s->others.bytes &&
		    (!largest || m->process[i].used.bytes > largest->used.bytes))
			largest = &m->process[i];
	if (largest)
		say(to, SAID(text_largest_process, fact_count("pid", largest->pid), fact_figure("bytes", largest->used)));
}

static struct said too_big_said(const struct oom_message *m, const struct oom_story *s, const struct oom_reason *r)
{
	if (oom_surely_above(s->requested, m->capacity))
		return SAID(text_beyond_gpu, fact_figure("asked", s->requested), fact_figure("capacity", m->capacity));
	return SAID(text_too_big, fact_flag("is_open", s->nr_missing && !r->is_firm),
		    fact_if(s->lacking.known, fact_figure("lacking", s->lacking)),
		    fact_if(!s->lacking.known, fact_figure("least", s->least_lacking)), fact_figure("allocated", s->allocated),
		    fact_if(m->capacity.known, fact_figure("capacity", m->capacity)));
}

static void say_verdict(struct sentences *to, const struct oom_message *m, const struct oom_story *s,
			const struct oom_reason *r)
{
	struct fact asked = fact_figure("asked", s->requested), unused = fact_figure("unused", s->unused);
	struct fact free_bytes = fact_figure("free", s->free), lacking = fact_figure("lacking", s->lacking);

	switch (r->verdict) {
	case VERDICT_TOO_BIG:
		say(to, too_big_said(m, s, r));
		break;
	case VERDICT_FRAGMENTATION:
		say(to, s->unused.bytes >= s->requested.bytes ? SAID(text_in_pieces, unused, asked) :
								SAID(text_in_pieces_with_free, unused, free_bytes, asked));
		break;
	case VERDICT_OTHER_PROCESS:
		say(to, SAID(text_others_hold, fact_figure("held", s->others.known ? s->others : s->unlisted), lacking));
		break;
	case VERDICT_NON_TORCH:
		say(to, s->own_outside.known ? SAID(text_own_outside, fact_figure("held", s->own_outside), lacking) :
					       SAID(text_outside, fact_figure("held", s->outside), lacking));
		break;
	case VERDICT_USER_LIMIT:
		say(to, SAID(text_limit, fact_figure("allowed", m->allowed),
			     fact_figure("reserved", s->reserved.known ? s->reserved : s->allocated), free_bytes));
		break;
	case VERDICT_HOST_OOM:
		say(to, s->requested.known ? SAID(text_host, asked) : SAID(text_host_more, NO_FACTS));
		break;
	default:
		break;
	}
}

/* ---- figures that are missing ---------------------------------------------------------------- */

#define MISSING_TEXT_MAX 200

static const char *missing_name(const struct oom_missing *missing)
{
	static const struct {
		const char *figure;
		enum sentence says;
	} names[] = { { "capacity", SAY_missing_capacity },
		      { "free", SAY_missing_free },
		      { "allocated", SAY_missing_allocated },
		      { "reserved", SAY_missing_reserved } };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i].figure, missing->figure))
			return sentence_words(names[i].says);
	return missing->figure;
}

/* "how much was free and how much PyTorch had reserved" */
static const char *missing_names(char buf[static MISSING_TEXT_MAX], const struct oom_story *s)
{
	size_t n = 0;

	buf[0] = 0;
	for (size_t i = 0; i < s->nr_missing && n < MISSING_TEXT_MAX; i++) {
		const char *before = !i ? "" : i + 1 == s->nr_missing ? " and " : ", ";

		n += (size_t)snprintf(buf + n, MISSING_TEXT_MAX - n, "%s%s", before, missing_name(&s->missing[i]));
	}
	return buf;
}

static const char *outcome_name(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_TOO_BIG:
		return sentence_words(SAY_outcome_too_big);
	case VERDICT_FRAGMENTATION:
		return sentence_words(SAY_outcome_fragmentation);
	case VERDICT_OTHER_PROCESS:
		return sentence_words(SAY_outcome_others);
	case VERDICT_NON_TORCH:
		return sentence_words(SAY_outcome_outside);
	case VERDICT_USER_LIMIT:
		return sentence_words(SAY_outcome_limit);
	default:
		return sentence_words(SAY_outcome_none);
	}
}

/* "below 9.41 GiB memory outside PyTorch, from 9.41 GiB plain too big, from 11.62 GiB fragmentation" */
static void say_missing(struct sentences *to, const struct oom_story *s)
{
	const struct oom_missing *missing = &s->missing[0];
	char text[MISSING_TEXT_MAX], part[SENTENCE_MAX];
	size_t n = 0;

	if (s->nr_missing != 1 || !missing->nr_outcomes)
		return;
	if (missing->nr_outcomes == 1) {
		say(to, SAID(text_one_outcome, fact_name("figure", missing_name(missing)),
			     fact_name("outcome", outcome_name(missing->outcome[0].verdict))));
		return;
	}
	for (size_t i = 0; i < missing->nr_outcomes && n < sizeof(text); i++) {
		struct fact size = fact_figure("size", (struct oom_figure){ true, 3, missing->outcome[i + !i].from_bytes, 0 });
		struct fact is = fact_name("outcome", outcome_name(missing->outcome[i].verdict));
		struct said said = i ? SAID(text_outcome_from, size, is) : SAID(text_outcome_below, size, is);

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? ", " : "", sentence_text(part, &said));
	}
	say(to, SAID(text_outcomes, fact_name("figure", missing_name(missing)), fact_name("outcomes", text)));
}

/* A message of PyTorch's that has figures, but not those that would explain it. */
static struct said open_said(const struct oom_story *s)
{
	struct fact figures;
	char names[MISSING_TEXT_MAX];

	if (s->nr_absurd)
		return SAID(text_contradicts, NO_FACTS);
	if (s->lacking.known && s->lacking.bytes <= 0)
		return SAID(text_refused, fact_figure("asked", s->requested), fact_figure("free", s->free));
	figures = fact_if(s->nr_missing, fact_name("figures", missing_names(names, s)));
	if (!s->requested.known)
		return SAID(text_has_no_request, figures);
	if (s->nr_missing == 1)
		return SAID(text_lacks_one, NO_FACTS);
	return s->nr_missing ? SAID(text_lacks, figures) : SAID(text_has_too_few, NO_FACTS);
}

/* Without figures that explain it. */
static void say_unexplained(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	struct fact asked = fact_if(s->requested.known, fact_figure("asked", s->requested));

	switch (m->wording) {
	case OOM_CUT:
		say(to, s->requested.known ? SAID(text_is_cut, asked) : SAID(text_is_cut_early, NO_FACTS));
		break;
	case OOM_OVERSIZE:
		say(to, SAID(text_asks_absurdly, NO_FACTS));
		break;
	case OOM_DRIVER:
		say(to, SAID(text_of_driver, NO_FACTS));
		break;
	case OOM_LIBRARY:
		say(to, SAID(text_of_library, NO_FACTS));
		break;
	case OOM_MPS:
		say(to, SAID(text_of_mps, asked, fact_flag("is_unknown", !s->requested.known),
			     fact_if(m->allowed.known, fact_figure("allowed", m->allowed)), fact_flag("is_less", !m->allowed.known)));
		break;
	case OOM_NOT_PYTORCH:
		say(to, SAID(text_of_others, NO_FACTS));
		break;
	default:
		say(to, open_said(s));
	}
}

/* ---- evidence -------------------------------------------------------------------------------- */

static struct said absurd_said(const struct oom_absurd *absurd)
{
	struct fact figure = fact_name("figure", absurd->figure), value = fact_figure("value", absurd->value);
	char text[FIGURE_MAX];

	switch (absurd->why) {
	case OOM_ABSURD_NEGATIVE:
		snprintf(text, sizeof(text), "%+.2f GiB", print_oom_in_unit(absurd->truth.bytes, 3));
		return SAID(text_negative, figure, value, fact_name("truth", text));
	case OOM_ABSURD_BEYOND:
		return SAID(text_beyond_sizes, figure, value);
	case OOM_ABSURD_REQUEST:
		return SAID(text_absurd_request, figure, value);
	case OOM_ABSURD_FREE:
		return SAID(text_absurd_free, figure, value);
	case OOM_ABSURD_ALLOCATED:
		return SAID(text_absurd_allocated, figure, value);
	case OOM_PAGED:
		return SAID(text_paged, figure, value);
	}
	return SAID_NOTHING;
}

static bool has_reason(const struct oom_story *s, enum verdict verdict)
{
	for (size_t i = 0; i < s->nr_reasons; i++)
		if (s->reason[i].verdict == verdict)
			return true;
	return false;
}

static void say_unused(struct sentences *to, const struct oom_story *s)
{
	bool may_free_decide = !s->is_full && !s->free.known && s->missing[0].nr_outcomes > 1;
	bool is_less = !may_free_decide && !s->is_full && s->requested.bytes > s->unused.bytes;
	struct fact cached, share;

	if (!s->unused.known || isnan(s->unused_share) || !s->requested.known)
		return;
	cached = fact_figure("unused", s->unused);
	share = fact_percent("share", s->unused_share);
	if (has_reason(s, VERDICT_FRAGMENTATION))
		say(to, SAID(text_unused, cached, share));
	else if (!s->is_full && oom_maybe_above(oom_figure_plus(s->unused, s->free), s->requested) && s->lacking.bytes > 0)
		say(to, SAID(text_unused_rounded, share, fact_range("range", s->unused)));
	else if (may_free_decide)
		say(to, SAID(text_unused, cached, share));
	else if (is_less)
		say(to, SAID(text_unused_is_less, cached, share));
	else
		say(to, s->is_full ? SAID(text_unused_is_full, cached, share) : SAID(text_unused_is_else, cached, share));
}

static void say_outside(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	if (s->self)
		say(to, SAID(text_is_self, fact_count("pid", s->self->pid), fact_figure("bytes", s->self->used)));
	if (s->others.known)
		say_largest_process(to, m, s);
	if (s->own_outside.known)
		say(to, SAID(text_holds_outside, fact_figure("bytes", s->own_outside)));
	else if (s->outside.known && !s->others.known)
		say(to, SAID(text_outside_of_whom, fact_figure("bytes", s->outside)));
	if (s->own_outside.known && s->unlisted.known && s->unlisted.bytes - s->unlisted.slack > 0x1p29)
		say(to, SAID(text_unlisted, fact_figure("bytes", s->unlisted)));
}

static void say_evidence(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	bool is_open = s->nr_missing == 1 && s->missing[0].nr_outcomes > 1;

	for (size_t i = 0; i < s->nr_absurd; i++)
		say(to, absurd_said(&s->absurd[i]));
	say_missing(to, s);
	if (s->nr_reasons && !s->reason[0].is_firm && !is_open && s->lacking.known && s->lacking.bytes > 0)
		say(to, SAID(text_is_rounded, fact_range("lacking", s->lacking)));
	if (s->tensor_max && s->tensor_min > 1)
		say(to, SAID(text_of_segment, fact_figure("segment", s->requested)));
	else if (s->tensor_max)
		say(to, SAID(text_of_small_segment, fact_figure("segment", s->requested)));
	say_unused(to, s);
	if (m->private_pools.known)
		say(to, SAID(text_private_pools, fact_figure("bytes", m->private_pools)));
	say_outside(to, m, s);
	if (s->is_no_limit)
		say(to, SAID(text_no_limit, NO_FACTS));
}

/* ---- advice ---------------------------------------------------------------------------------- */

/* The fraction of the GPU that would have let the request pass, and the one that was set. */
static struct said limit_advice(const struct oom_message *m, const struct oom_story *s)
{
	double lacking = fmax(0, s->limit_lacking.bytes) + s->limit_lacking.slack;
	double enough = fmin(1, ceil(1000 * (m->allowed.bytes + lacking) / m->capacity.bytes) / 1000);
	double was = m->allowed.bytes / m->capacity.bytes;
	char enough_text[FIGURE_MAX], was_text[FIGURE_MAX];

	snprintf(enough_text, sizeof(enough_text), "%.3f", enough);
	snprintf(was_text, sizeof(was_text), "%.3f", was);
	return SAID(text_limit_advice, fact_as(fact_ratio("fraction", enough), enough_text), fact_as(fact_ratio("was", was), was_text));
}

static void say_advice_for(struct sentences *to, const struct oom_message *m, const struct oom_story *s,
			   const struct oom_reason *r)
{
	switch (r->verdict) {
	case VERDICT_FRAGMENTATION:
		say(to, SAID(text_expandable_advice, fact_name("backend", !strcmp(m->backend, "HIP") ? "HIP" : "CUDA"),
			     fact_figure("unused", s->unused)));
		break;
	case VERDICT_OTHER_PROCESS:
		say(to, SAID(text_others_advice, fact_figure("held", s->others.known ? s->others : s->unlisted)));
		break;
	case VERDICT_NON_TORCH:
		say(to, SAID(text_outside_advice, NO_FACTS));
		break;
	case VERDICT_USER_LIMIT:
		if (m->capacity.known && m->capacity.bytes > 0)
			say(to, limit_advice(m, s));
		break;
	case VERDICT_TOO_BIG:
		if (oom_surely_above(s->requested, m->capacity))
			say(to, SAID(text_beyond_gpu_advice, NO_FACTS));
		else if (s->lacking.known)
			say(to, SAID(text_less_advice, fact_figure("lacking", s->lacking)));
		break;
	default:
		break;
	}
}

static void say_advice(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	for (size_t i = 0; i < s->nr_reasons; i++)
		say_advice_for(to, m, s, &s->reason[i]);
	if (!s->nr_reasons && s->lacking.known && s->lacking.bytes <= 0)
		say(to, SAID(text_refused_advice, NO_FACTS));
	if (m->wording <= OOM_LIBRARY)
		say(to, SAID(text_record_advice, NO_FACTS));
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_title(struct emit *e, const struct oom_message *m)
{
	char rank[32] = "", device[32] = "";

	if (m->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %" PRId64 ", ", m->rank);
	if (m->device >= 0)
		snprintf(device, sizeof(device), "GPU %" PRId64 ", ", m->device);
	emit_heading(e, "%s%s%s%sout of memory", rank, device, m->backend, *m->backend ? " " : "");
}

/* Lines that sentences take, with an empty one before them. */
static unsigned nr_lines(const struct sentences *from, const char *lead)
{
	unsigned lines = from->nr > 0;

	for (size_t i = 0; i < from->nr; i++)
		lines += print_said(NULL, lead, lead, from->said[i]);
	return lines;
}

/* Leave out evidence from the end until it takes at most so many lines. */
static void shorten(struct sentences *evidence, unsigned lines)
{
	while (evidence->nr && nr_lines(evidence, "- ") > lines)
		evidence->nr--;
}

static void print_sentences(struct emit *e, const struct sentences *from, const char *first, const char *others,
			    const char *indent)
{
	if (from->nr)
		emit_blank(e);
	for (size_t i = 0; i < from->nr; i++)
		print_said(e, i ? others : first, indent, from->said[i]);
}

void print_oom_text(struct emit *e, const struct oom_message *m, const struct oom_story *s)
{
	struct sentences verdict = { 0 }, evidence = { 0 }, advice = { 0 };
	unsigned lines = 1, figures, columns;

	if (!emit_is_text(e))
		return;
	for (size_t i = 0; i < s->nr_reasons; i++)
		say_verdict(&verdict, m, s, &s->reason[i]);
	if (!verdict.nr)
		say_unexplained(&verdict, m, s);
	say_evidence(&evidence, m, s);
	say_advice(&advice, m, s);

	print_title(e, m);
	for (size_t i = 0; i < verdict.nr; i++)
		lines += print_said(e, i ? "also: " : "", i ? "      " : "", verdict.said[i]);
	lines += nr_lines(&advice, "      ");
	figures = print_oom_figures(NULL, m, s, 1);
	columns = lines + figures + nr_lines(&evidence, "- ") > PAGE_LINES ? 2 : 1;
	lines += print_oom_figures(e, m, s, columns);
	shorten(&evidence, lines < PAGE_LINES ? PAGE_LINES - lines : 0);
	print_sentences(e, &evidence, "- ", "- ", "  ");
	print_sentences(e, &advice, "next: ", "      ", "      ");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void print_oom_findings(struct emit *e, const struct oom_message *m, const struct oom_story *s)
{
	emit_array_begin(e, "findings", NULL);
	for (size_t i = 0; i < s->nr_reasons || (!s->nr_reasons && !i); i++) {
		const struct oom_reason none = { VERDICT_NONE, 0, false };
		const struct oom_reason *r = s->nr_reasons ? &s->reason[i] : &none;
		struct sentences evidence = { 0 }, advice = { 0 };

		if (r->verdict)
			say_verdict(&evidence, m, s, r);
		else
			say_unexplained(&evidence, m, s);
		if (!i)
			say_evidence(&evidence, m, s);
		say_advice_for(&advice, m, s, r);
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(r->verdict));
		emit_null(e, "site", NULL);
		emit_double(e, "bytes", NULL, r->verdict ? nearbyint(r->bytes) : NAN);
		emit_bool(e, "firm", NULL, r->is_firm);
		sentence_json_texts(e, "evidence", evidence.said, evidence.nr);
		sentence_json(e, "facts", &evidence.said[0]);
		sentence_json_facts(e, "evidence_facts", evidence.said + 1, evidence.nr ? evidence.nr - 1 : 0);
		sentence_json_texts(e, "advice", advice.said, advice.nr);
		sentence_json_facts(e, "advice_facts", advice.said, advice.nr);
		emit_object_end(e);
	}
	emit_array_end(e);
}
