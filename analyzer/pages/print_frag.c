/* SPDX-License-Identifier: MIT */
/* The page of fragmentation of one device, and its JSON. */
#include "analyzer/pages/print_frag.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/findings/certainty.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/recording/basename.h"
#include "analyzer/ui/print_wrapped.h"

#define SITE_WIDTH 34 /* so that a blocker's line has 80 columns */
#define TEXT_MAX 512

static const char *const moment_names[NR_FRAG_MOMENTS] = { "peak", "failure", "end" };
static const char *const harm_names[NR_FRAG_HARMS] = { "failed", "retry", "segment" };

static const struct emit_column blocker_columns[] = {
	{ "kept_bytes", "keep", EMIT_RIGHT, false },
	{ "segments", "in", EMIT_RIGHT, false },
	{ "bytes", "bytes", EMIT_RIGHT, false },
	{ "count", "blocks", EMIT_RIGHT, false },
	{ "largest_block_bytes", NULL, EMIT_RIGHT, false },
	{ "age", "oldest", EMIT_RIGHT, true },
	{ "where", "allocated at", EMIT_LEFT, true },
	{ NULL, NULL, EMIT_LEFT, false },
};

/* ---- judgement ---------------------------------------------------------------------------------- */

/* The moment whose blockers a finding is about. */
static enum frag_when moment_of(enum frag_harm which)
{
	return which == FRAG_FAILED ? FRAG_FAILURE : FRAG_PEAK;
}

/* Where most of a GPU stands empty, what lies in pieces costs nothing. */
static bool is_scarce(const struct frag_view *v)
{
	const struct frag_figures *f = &v->d->moment[FRAG_PEAK].figures;

	/* What lies in segments that are wholly free is given back before a request fails. */
	return frag_is_scarce(f->reserved - f->empty_cache, v->device->capacity_bytes);
}

/* Does the finding that too much is stuck say more than the others? */
static bool shows_stuck(const struct frag_view *v)
{
	return frag_is_stuck(v->d) && is_scarce(v);
}

/* A request that failed, or emptied the cache, has had its price; segments that were taken have one where memory is scarce. */
static bool is_finding(const struct frag_view *v, enum frag_harm which)
{
	return frag_is_finding(v->d, which) && (which != FRAG_SEGMENT || is_scarce(v));
}

unsigned frag_view_findings(const struct frag_view *v)
{
	unsigned nr = 0;

	if (!v->d)
		return 0;
	for (int i = 0; i < NR_FRAG_HARMS; i++)
		nr += is_finding(v, (enum frag_harm)i);
	return nr + shows_stuck(v);
}

/* Bytes of blocks of which nobody said what was asked for. */
static uint64_t unknown_request(const struct frag_figures *f)
{
	uint64_t active = f->allocated + f->pending;

	return active > f->known ? active - f->known : 0;
}

/* ---- sentences ---------------------------------------------------------------------------------- */

static struct fact harmless(const struct frag_view *v)
{
	return fact_flag("is_harmless", !v->d->harm[FRAG_FAILED].count && !v->d->harm[FRAG_RETRY].count);
}

static struct said harm_said(const struct frag_view *v, enum frag_harm which)
{
	const struct frag_cases *c = &v->d->harm[which];
	struct fact asked = fact_bytes("asked", c->asked), free_bytes = fact_bytes("free", c->free_bytes);

	if (which == FRAG_FAILED)
		return SAID(frag_failed, asked, free_bytes, fact_bytes("largest", c->largest_free));
	if (which == FRAG_RETRY)
		return SAID(frag_retry, asked, free_bytes);
	return SAID(frag_segments, fact_bytes("bytes", frag_forced_bytes(v->d)), harmless(v));
}

static struct said stuck_said(const struct frag_view *v)
{
	const struct frag_figures *p = &v->d->moment[FRAG_PEAK].figures;

	return SAID(frag_stuck, fact_bytes("bytes", p->stuck), fact_bytes("reserved", p->reserved),
		    fact_share("share", (double)p->stuck, (double)p->reserved), harmless(v));
}

/* The finding that matters most, or nothing. */
static struct said verdict(const struct frag_view *v)
{
	for (int i = 0; i < NR_FRAG_HARMS; i++)
		if (is_finding(v, (enum frag_harm)i) && (i != FRAG_SEGMENT || !shows_stuck(v)))
			return harm_said(v, (enum frag_harm)i);
	return shows_stuck(v) ? stuck_said(v) : SAID_NOTHING;
}

/* ---- blockers ----------------------------------------------------------------------------------- */

static const char *site_text(char *buf, size_t size, const struct blocker *b)
{
	struct stack_frame frame = b->site;

	if (!b->known) {
		snprintf(buf, size, "%s", sentence_words(SAY_unknown_place));
		return buf;
	}
	if (frame.file)
		frame.file = print_short_path(frame.file);
	stack_frame_text(buf, size, &frame);
	if (strlen(buf) > SITE_WIDTH && frame.file) {
		frame.file = basename_of(frame.file);
		stack_frame_text(buf, size, &frame);
	}
	if (strlen(buf) > SITE_WIDTH)
		snprintf(buf, size, "%s:%" PRIu32, frame.file ? frame.file : "?", frame.line);
	return buf;
}

/* What the program calls the blocks of a place then; false: no census tells. The groups are to be released either way. */
static bool name_of(struct namegroups *g, const struct frag_view *v, const struct blocker *b, enum frag_when when)
{
	enum lives_moment moment = when == FRAG_FAILURE ? LIVES_OOM : when == FRAG_END ? LIVES_END :
				   categories_moment(v->device->process, v->device->ordinal, MARK_TENSOR_PEAK);

	namedblocks_of_python(g, v->device, b->python_stack, moment);
	return b->known && namegroups_most(g);
}

/* Below the table, of what keeps most. */
static void print_blocker_name(struct emit *e, const struct frag_view *v, enum frag_when when)
{
	const struct blockers *b = &v->blockers[when];
	struct namegroups g;

	if (!b->nr_blockers)
		return;
	if (name_of(&g, v, &b->blocker[0], when))
		print_said(e, "  the first is ", "    ", named_said(namegroups_most(&g)));
	namegroups_release(&g);
}

static void print_blockers(struct emit *e, const struct frag_view *v, enum frag_when when)
{
	const struct blockers *b = &v->blockers[when];
	uint64_t now = v->d->moment[when].figures.time_ns;
	char text[TEXT_MAX], age[HUMAN_MAX];
	struct namegroups g;

	emit_table_begin(e, "blockers", blocker_columns);
	for (size_t i = 0; i < b->nr_blockers && (!v->top || i < v->top); i++) {
		const struct blocker *k = &b->blocker[i];

		emit_row_begin(e);
		emit_bytes(e, "kept_bytes", NULL, k->kept_bytes);
		emit_uint(e, "segments", NULL, k->units);
		emit_uint(e, "segments_alone", NULL, k->alone_units);
		emit_uint(e, "first_segment", NULL, k->first_unit);
		emit_bytes(e, "bytes", NULL, k->bytes);
		emit_uint(e, "count", NULL, k->blocks);
		emit_bytes(e, "largest_block_bytes", NULL, k->largest_bytes);
		emit_uint(e, "oldest_ns", NULL, k->oldest_ns);
		emit_uint(e, "python_stack", NULL, k->python_stack);
		print_site_of(e, k->known ? &k->site : NULL);
		if (emit_is_json(e)) {
			if (name_of(&g, v, k, when))
				json_name(e, namegroups_most(&g));
			namegroups_release(&g);
		}
		emit_label(e, "age", NULL, "%s", human_ns(age, now > k->oldest_ns ? now - k->oldest_ns : 0));
		emit_label(e, "where", NULL, "%s", site_text(text, sizeof(text), k));
		emit_row_end(e);
	}
	emit_table_end(e);
	print_blocker_name(e, v, when);
}

/* ---- what would help ---------------------------------------------------------------------------- */

/* Would the latest failed request have fitted with expandable segments, in what PyTorch had reserved? */
static bool would_fit(const struct frag_view *v)
{
	const struct frag_moment *failure = &v->d->moment[FRAG_FAILURE];

	return failure->reached && !frag_is_expandable(v->d) &&
	       v->d->expandable_kept + v->d->harm[FRAG_FAILED].asked <= failure->figures.reserved;
}

static struct said expandable_advice(const struct frag_view *v)
{
	const struct frag_figures *p = &v->d->moment[FRAG_PEAK].figures;
	uint64_t saved = frag_saved_by_growing(v->d);

	if (!frag_is_expandable(v->d) && would_fit(v))
		return SAID(frag_expandable_fits, fact_bytes("kept", v->d->expandable_kept));
	if (!frag_is_expandable(v->d) && (double)saved > FRAG_SAVED_SHARE * (double)p->reserved)
		return SAID(frag_expandable_saves, fact_bytes("saved", saved));
	return SAID_NOTHING;
}

/* Of blocks that keep more than they are. */
static struct said blocker_advice(const struct frag_view *v, enum frag_when when)
{
	const struct blockers *b = &v->blockers[when];
	char site[TEXT_MAX / 2];

	if (!b->nr_blockers || !b->blocker[0].known || b->blocker[0].of_pass ||
	    b->blocker[0].kept_bytes < b->blocker[0].bytes ||
	    (double)b->blocker[0].kept_bytes <= FRAG_SAVED_SHARE * (double)v->d->moment[when].figures.reserved)
		return SAID_NOTHING;
	return SAID(frag_blocker_first, fact_bytes("bytes", b->blocker[0].bytes),
		    fact_name("place", site_text(site, sizeof(site), &b->blocker[0])),
		    fact_bytes("freed", b->blocker[0].kept_bytes));
}

/* ---- text --------------------------------------------------------------------------------------- */

static enum frag_when shown_moment(const struct frag_view *v)
{
	return v->d->moment[FRAG_FAILURE].reached ? FRAG_FAILURE : FRAG_PEAK;
}

/* Lines of at most 80 columns; those after the first are indented by `indent`. */
static void text_wrapped(struct emit *e, void (*line)(struct emit *, const char *, ...), const char *text,
			 int indent)
{
	int in = 0;

	while (strlen(text) > (size_t)(80 - in)) {
		int cut = 80 - in;

		while (cut > 1 && text[cut] != ' ')
			cut--;
		line(e, "%*s%.*s", in, "", cut, text);
		text += cut + (text[cut] == ' ');
		in = indent;
	}
	line(e, "%*s%s", in, "", text);
}

static void text_figures(struct emit *e, const struct frag_view *v)
{
	enum frag_when when = shown_moment(v);
	const struct frag_figures *p = &v->d->moment[FRAG_PEAK].figures, *f = &v->d->moment[when].figures;
	const struct frag_figures *end = &v->d->moment[FRAG_END].figures;
	bool is_kept = v->device->process->is_kept;
	uint64_t unknown = unknown_request(f);

	print_said_label(e, "reserved", SAID(frag_figure_reserved, fact_name("at_least", print_at_least(v->device->process)),
				   fact_bytes("peak", p->reserved), fact_flag("is_kept", is_kept), fact_bytes("end", end->reserved)));
	print_said_label(e, "cached, unused", SAID(frag_figure_unused, fact_share("share", (double)p->cached, (double)p->reserved)));
	print_said_label(e, when == FRAG_PEAK ? "at that peak" : "at the failure",
	       SAID(frag_figure_moment, fact_bytes("allocated", f->allocated), fact_bytes("cached", f->cached),
		    fact_bytes("largest", f->largest_free)));
	print_said_label(e, "  stuck", SAID(frag_figure_stuck, fact_bytes("bytes", f->stuck), fact_share("share", (double)f->stuck, (double)f->reserved)));
	print_said_label(e, "  rounding", SAID(frag_figure_rounding, fact_bytes("lost", f->known - f->requested),
				     fact_if(unknown, fact_bytes("unknown", unknown))));
	if (f->pending)
		print_said_label(e, "  pending", SAID(frag_figure_pending, fact_bytes("bytes", f->pending)));
	if (f->held)
		print_said_label(e, "  CUDA graphs", SAID(frag_figure_graphs, fact_bytes("bytes", f->held)));
	print_said_label(e, "empty_cache", SAID(frag_figure_empty_cache, fact_bytes("bytes", f->empty_cache), fact_bytes("end", end->empty_cache)));
	if (!frag_is_expandable(v->d))
		print_said_label(e, "expandable", SAID(frag_figure_expandable, fact_bytes("bytes", expandable_peak(&v->d->expandable))));
	if (v->d->disagreements)
		print_said_label(e, "not known", SAID(frag_figure_not_known, NO_FACTS));
}

static void text_advice(struct emit *e, struct said said)
{
	char text[SENTENCE_MAX + 2] = "- ";

	if (*sentence_text(text + 2, &said))
		text_wrapped(e, emit_text, text, 2);
}

void print_frag_text(struct emit *e, const struct frag_view *v)
{
	char title[256], sentence[SENTENCE_MAX];
	struct fact at_failure, at_peak;
	enum frag_when when;
	struct said said;

	emit_heading(e, "%s", print_device_title(title, sizeof(title), v->m, v->device));
	if (!v->d || !v->d->moment[FRAG_PEAK].reached) {
		print_said(e, "", "", SAID(frag_reserved_nothing, NO_FACTS));
		return;
	}
	said = verdict(v);
	if (*sentence_text(sentence, &said))
		text_wrapped(e, emit_heading, sentence, 0);
	else
		print_said(e, "", "", SAID(frag_none, NO_FACTS));
	emit_blank(e);
	text_figures(e, v);
	when = shown_moment(v);
	at_failure = fact_flag("at_failure", when == FRAG_FAILURE);
	at_peak = fact_flag("at_peak", when != FRAG_FAILURE);
	if (!*sentence || !v->blockers[when].nr_blockers)
		return;
	emit_blank(e);
	print_said(e, "", "", v->blockers[when].is_half_free ? SAID(frag_kept_half_free, at_failure, at_peak) :
							       SAID(frag_kept_partly_free, at_failure, at_peak));
	print_blockers(e, v, when);
	emit_blank(e);
	text_advice(e, expandable_advice(v));
	text_advice(e, blocker_advice(v, when));
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static void json_moment(struct emit *e, const struct frag_view *v, enum frag_when when)
{
	const struct frag_moment *moment = &v->d->moment[when];
	const struct frag_figures *f = &moment->figures;

	if (!moment->reached) {
		emit_null(e, moment_names[when], NULL);
		return;
	}
	emit_object_begin(e, moment_names[when], NULL);
	emit_uint(e, "time_ns", NULL, f->time_ns);
	emit_uint(e, "reserved_bytes", NULL, f->reserved);
	emit_uint(e, "allocated_bytes", NULL, f->allocated);
	emit_uint(e, "cached_bytes", NULL, f->cached);
	emit_uint(e, "pending_bytes", NULL, f->pending);
	emit_uint(e, "stuck_bytes", NULL, f->stuck);
	emit_uint(e, "held_by_graphs_bytes", NULL, f->held);
	emit_uint(e, "empty_cache_bytes", NULL, f->empty_cache);
	emit_uint(e, "inactive_split_bytes", NULL, f->split);
	emit_uint(e, "largest_free_bytes", NULL, f->largest_free);
	emit_uint(e, "requested_bytes", NULL, f->requested);
	emit_uint(e, "rounding_bytes", NULL, f->known - f->requested);
	emit_uint(e, "unknown_request_bytes", NULL, unknown_request(f));
	emit_uint(e, "forced_bytes", NULL, f->forced);
	emit_uint(e, "segments", NULL, f->segments);
	print_blockers(e, v, when);
	emit_object_end(e);
}

static void json_harm(struct emit *e, const struct frag_view *v, enum frag_harm which)
{
	const struct frag_cases *c = &v->d->harm[which];

	emit_object_begin(e, harm_names[which], NULL);
	emit_uint(e, "count", NULL, c->count);
	emit_uint(e, "asked_bytes", NULL, c->asked);
	emit_uint(e, "free_bytes", NULL, c->free_bytes);
	emit_uint(e, "largest_free_bytes", NULL, c->largest_free);
	emit_uint(e, "time_ns", NULL, c->time_ns);
	emit_object_end(e);
}

void json_frag(struct emit *e, const struct frag_view *v)
{
	const struct frag_figures *p = v->d ? &v->d->moment[FRAG_PEAK].figures : NULL;

	if (p && p->reserved)
		emit_double(e, "unused_at_peak", NULL, (double)p->cached / (double)p->reserved);
	else
		emit_null(e, "unused_at_peak", NULL);
	emit_bool(e, "of_kept_part", NULL, v->device->process->is_kept);
	emit_object_begin(e, "moments", NULL);
	for (int i = 0; i < NR_FRAG_MOMENTS; i++) {
		if (v->d)
			json_moment(e, v, (enum frag_when)i);
		else
			emit_null(e, moment_names[i], NULL);
	}
	emit_object_end(e);
	emit_object_begin(e, "harm", NULL);
	for (int i = 0; i < NR_FRAG_HARMS; i++) {
		if (v->d)
			json_harm(e, v, (enum frag_harm)i);
		else
			emit_null(e, harm_names[i], NULL);
	}
	emit_object_end(e);
	emit_object_begin(e, "expandable_segments", NULL);
	emit_bool(e, "in_use", NULL, v->d && frag_is_expandable(v->d));
	if (v->d && !frag_is_expandable(v->d))
		emit_uint(e, "reserved_peak_bytes", NULL, expandable_peak(&v->d->expandable));
	else
		emit_null(e, "reserved_peak_bytes", NULL);
	if (v->d && v->d->moment[FRAG_FAILURE].reached && !frag_is_expandable(v->d))
		emit_bool(e, "failed_request_fits", NULL, would_fit(v));
	else
		emit_null(e, "failed_request_fits", NULL);
	emit_object_end(e);
	emit_uint(e, "failures", NULL, v->d ? v->d->failures : 0);
	emit_uint(e, "unplaced_bytes", NULL, v->d ? v->d->segments.unplaced_bytes : 0);
	emit_uint(e, "disagreements", NULL, v->d ? v->d->disagreements : 0);
}

static void json_finding(struct emit *e, const struct frag_view *v, enum frag_when when, uint64_t bytes, struct said said)
{
	const struct said advice[] = { expandable_advice(v), blocker_advice(v, when) };
	const struct blockers *b = &v->blockers[when];

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "verdict", NULL, "fragmentation");
	print_site_of(e, b->nr_blockers && b->blocker[0].known ? &b->blocker[0].site : NULL);
	emit_uint(e, "bytes", NULL, bytes);
	emit_uint(e, "pid", NULL, v->device->process->header->pid);
	emit_uint(e, "device", NULL, v->device->ordinal);
	emit_string(e, "certainty", NULL, certainty_name(CERTAINTY_PROVEN)); /* all of it is counted */
	sentence_json_texts(e, "evidence", &said, 1);
	sentence_json(e, "facts", &said);
	sentence_json_texts(e, "advice", advice, sizeof(advice) / sizeof(*advice));
	sentence_json_facts(e, "advice_facts", advice, sizeof(advice) / sizeof(*advice));
	emit_object_end(e);
}

void json_frag_findings(struct emit *e, const struct frag_view *v)
{
	if (!v->d || !emit_is_json(e))
		return;
	for (int i = 0; i < NR_FRAG_HARMS; i++) {
		enum frag_harm which = (enum frag_harm)i;

		if (is_finding(v, which))
			json_finding(e, v, moment_of(which),
				     which == FRAG_SEGMENT ? frag_forced_bytes(v->d) : v->d->harm[which].free_bytes,
				     harm_said(v, which));
	}
	if (shows_stuck(v))
		json_finding(e, v, FRAG_PEAK, v->d->moment[FRAG_PEAK].figures.stuck, stuck_said(v));
}
