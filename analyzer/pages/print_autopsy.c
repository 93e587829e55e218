/* SPDX-License-Identifier: MIT */
/* Printing the autopsy of a failed allocation. */
#include "analyzer/pages/print_autopsy.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/pages/print_advice.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_oom.h"
#include "analyzer/pages/print_parts.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"

#define SITE_MAX 512
#define LISTED_MAX 100 /* in JSON */
#define NARROW_PATH 30
#define NAME_MIN 8       /* of a file's name, however little room there is */
#define REQUEST_WIDTH 52 /* after what was asked for */
#define NARROW_SITE 36
#define HOLDERS_SHOWN 3
#define NAMED_SITE 38 /* of a row: a site with what is held there */
#define MODULES_SHOWN 3
#define ADVICE_SHOWN 3
#define SCREEN_LINES 24
#define STATE_LINES 12 /* at most, without modules and steps */

/* "train.py:31 in forward". */
static const char *site_text(char *buf, size_t size, const struct stack_frame *f)
{
	struct stack_frame shown = *f;

	if (!f->file && !f->function) {
		snprintf(buf, size, "%s", sentence_words(SAY_unknown_place));
		return buf;
	}
	if (f->python && f->file)
		shown.file = print_short_path(f->file);
	return stack_frame_text(buf, size, &shown);
}

/* The file's name alone where its folders are too long for a column. */
static const char *narrow_path(const char *path)
{
	const char *text = print_short_path(path), *name = strrchr(text, '/');

	return strlen(text) > NARROW_PATH && name ? name + 1 : text;
}

/* The same as site_text() for a column: the function without classes around it, if it fits. */
static const char *narrow_site_text(char *buf, size_t size, const struct stack_frame *f)
{
	const char *function = f->function ? strrchr(f->function, '.') : NULL;
	int n;

	if (!f->file)
		return site_text(buf, size, f);
	function = function ? function + 1 : f->function;
	n = snprintf(buf, size, "%.*s:%" PRIu32, NARROW_PATH, narrow_path(f->file), f->line);
	if (function && (size_t)n + 1 + strlen(function) <= NARROW_SITE)
		snprintf(buf + n, size - (size_t)n, " %s", function);
	return buf;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The end of a path that has room: folders are left out, of a long name its beginning. */
static const char *path_end(const char *path, size_t room)
{
	const char *slash;

	while (strlen(path) > room && (slash = strchr(path, '/')))
		path = slash + 1;
	return strlen(path) > room ? path + strlen(path) - room : path;
}

static void print_request(struct emit *e, const struct autopsy *a)
{
	const struct failure *x = a->failure;
	char asked[HUMAN_MAX], step[48] = "", stream[32] = "", where[SITE_MAX] = "", line[16];
	bool has_phase = categories_tell_phases(a->device->process);
	const char *phase = has_phase ? phase_names[x->phase] : "", *first = has_phase ? ", " : "";
	int room = REQUEST_WIDTH;

	if (a->step)
		snprintf(step, sizeof(step), "step %" PRIu32 "%s, ", a->step,
			 a->device->process->is_kept ? " of those kept" : "");
	if (x->stream)
		snprintf(stream, sizeof(stream), "%sstream %u", first, x->stream);
	if (x->stream)
		first = ", ";
	room -= (int)(strlen(step) + strlen(phase) + strlen(stream) + strlen(", at ")) +
		snprintf(line, sizeof(line), ":%" PRIu32, a->site.line);
	room = room > NARROW_PATH ? NARROW_PATH : room < NAME_MIN ? NAME_MIN : room;
	if (a->site.file)
		snprintf(where, sizeof(where), "%sat %s%s", first, path_end(narrow_path(a->site.file), (size_t)room), line);
	emit_label(e, NULL, "asked", "%8s   %s%s%s%s", human_bytes(asked, x->asked), step, phase,
		   stream, where);
}

/* What is in use beyond what PyTorch has reserved, in its parts: as many as a line has room for. */
static void print_beyond(struct emit *e, const struct autopsy *a)
{
	uint64_t others = a->failure->others_known ? a->failure->other_processes : 0, context = a->failure->context;
	uint64_t known = others + a->libraries, rest = a->outside > known ? a->outside - known : 0;
	struct {
		const char *name;
		uint64_t bytes;
	} part[] = { { "other processes", others }, { "libraries", a->libraries }, { "context", 0 }, { "rest", 0 } };
	char size[HUMAN_MAX], text[128] = "";
	unsigned nr = 0;
	size_t n = 0;

	/* A context that is more than what is left is not this one's alone. */
	if (context <= rest && !(others && a->libraries))
		part[2].bytes = context;
	part[3].bytes = rest - part[2].bytes;
	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
		nr += part[i].bytes > 0;
	if (nr > 2)
		part[0].name = "others";
	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
		if (part[i].bytes)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "", part[i].name,
					      human_bytes(size, part[i].bytes));
	emit_label(e, NULL, "outside PyTorch", "%8s   %s", human_bytes(size, a->outside), text);
}

static void print_device(struct emit *e, const struct autopsy *a)
{
	const struct failure *x = a->failure;
	char size[HUMAN_MAX], part[HUMAN_MAX];

	if (a->capacity)
		emit_label(e, NULL, "capacity", "%8s", human_bytes(size, a->capacity));
	emit_label(e, NULL, x->is_driver ? "from the driver" : "reserved", "%8s", human_bytes(size, x->reserved));
	if (!x->is_driver)
		emit_label(e, NULL, "allocated", "%8s   %s cached", human_bytes(size, x->allocated),
		   human_bytes(part, a->cached));
	if (a->outside_known)
		print_beyond(e, a);
	if (x->free_known && x->refused)
		emit_label(e, NULL, "free", "%8s   %s would have fitted at most", human_bytes(size, x->free),
			   human_bytes(part, a->largest_fit));
	else if (x->free_known)
		emit_label(e, NULL, "free", "%8s", human_bytes(size, x->free));
}

static enum category main_category(const struct autopsy_place *p)
{
	enum category most = CATEGORY_UNKNOWN;

	for (int i = 0; i < NR_CATEGORIES; i++)
		if (p->category[i] > p->category[most])
			most = (enum category)i;
	return most;
}

/* "train.py:42 fit (self.history[*])", where that is not too long. Returns buf. */
static const char *site_with_name(char *buf, size_t size, const char *site, const struct autopsy_place *p)
{
	const char *name = p->named ? namegroup_text(p->named) : "";

	if (*name && strlen(site) + strlen(name) + 3 <= NAMED_SITE)
		snprintf(buf, size, "%s (%s)", site, name);
	else
		snprintf(buf, size, "%s", site);
	return buf;
}

static void print_places(struct emit *e, const struct autopsy *a)
{
	static const struct emit_column columns[] = {
		{ "bytes", "held by", EMIT_RIGHT, true },    { "share", "share", EMIT_RIGHT, true },
		{ "count", "blocks", EMIT_RIGHT, true },     { "category", "mostly", EMIT_LEFT, true },
		{ "site", "allocated at", EMIT_LEFT, true }, { NULL, NULL, EMIT_LEFT, false },
	};
	char text[SITE_MAX], share[HUMAN_MAX], with_name[SITE_MAX + OBJECTNAME_MAX];

	if (!a->nr_places)
		return;
	emit_table_begin(e, NULL, columns);
	for (size_t i = 0; i < a->nr_places && i < HOLDERS_SHOWN; i++) {
		const struct autopsy_place *p = &a->place[i];

		emit_row_begin(e);
		emit_bytes(e, "bytes", NULL, p->bytes);
		emit_label(e, "share", NULL, "%s",
			   human_percent(share, (double)p->bytes,
					 (double)(a->failure->is_driver ? a->failure->reserved : a->failure->allocated)));
		emit_uint(e, "count", NULL, p->blocks);
		emit_string(e, "category", NULL, category_names[main_category(p)]);
		narrow_site_text(text, sizeof(text), &p->frame);
		emit_string(e, "site", NULL, site_with_name(with_name, sizeof(with_name), text, p));
		emit_row_end(e);
	}
	emit_table_end(e);
}

/* The modules with most bytes; returns how many lines that takes, and without an e only counts them. */
static unsigned print_module_line(struct emit *e, const struct autopsy *a)
{
	const struct modulepaths *paths = a->device->process->modulepaths;
	char line[256] = "", name[64], size[HUMAN_MAX];
	size_t n = 0, shown = 0;

	for (size_t i = 0; i < a->modules.nr_sums && shown < MODULES_SHOWN; i++) {
		const struct module_sum *sum = &a->modules.sum[i];

		if (!sum->path || modulepaths_depth(paths, sum->path) <= a->modules.nr_common ||
		    sum->bytes < a->failure->allocated / 20)
			continue;
		modulepaths_text(paths, sum->path, a->modules.nr_common, name, sizeof(name));
		if (!name[strspn(name, "*.")])
			continue;
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s: %s", shown++ ? ", " : "", name,
				      human_bytes(size, sum->bytes));
	}
	return shown ? print_wrapped(e, "Most in modules: ", "  ", line) : 0;
}

/* What the step began with, against the one before. */
static void print_step(struct emit *e, const struct autopsy *a)
{
	const struct lives *lives = a->device->process->lives;
	char text[HUMAN_MAX], sentence[SENTENCE_MAX];
	uint64_t bytes, before;
	struct fact change;
	struct said said;

	if (a->step < 3 || !lives_step_bytes(lives, a->device->ordinal, a->step - 1, &bytes) ||
	    !lives_step_bytes(lives, a->device->ordinal, a->step - 2, &before))
		return;
	change = fact_as(fact_signed_bytes("change", (int64_t)(bytes - before)), human_bytes_delta(text, (int64_t)(bytes - before)));
	said = SAID(step_began_with, fact_step("step", a->step), fact_bytes("bytes", bytes), change);
	emit_text(e, "%s", sentence_text(sentence, &said));
}

unsigned print_autopsy_brief(struct emit *e, const struct autopsy *a)
{
	const struct autopsy_finding *f = a->finding;
	char where[SITE_MAX] = "", caller[SITE_MAX] = "";

	if (!a->nr_findings)
		return 0;
	if (f->has_site)
		narrow_site_text(where, sizeof(where), &f->site);
	if (f->has_caller)
		narrow_site_text(caller, sizeof(caller), &f->caller);
	return print_said(e, "", "  ", SAID(cause_in_brief, fact_name("certainty", certainty_word(f->certainty)),
					    fact_name("verdict", verdict_name(f->verdict)),
					    fact_name("place", *where ? where : NULL),
					    fact_name("caller", *caller ? caller : NULL), fact_bytes("bytes", f->bytes)));
}

unsigned print_autopsy_action(struct emit *e, const struct autopsy *a)
{
	const struct autopsy_finding *f = a->finding;

	if (!a->nr_findings || autopsy_is_about_size(a))
		return 0;
	return print_said(e, "do: ", "    ", f->nr_advice ? f->advice[0] : f->smaller);
}

/* Is it about what is kept, and need not be? */
static bool is_kept(const struct autopsy_finding *f)
{
	return f->verdict == VERDICT_LEAK || f->verdict == VERDICT_GRAPH_RETENTION || f->verdict == VERDICT_CYCLE ||
	       f->verdict == VERDICT_EXCEPTION;
}

/* Who keeps it is a matter only of what could go: of what the program computes, its variables keep what they must. */
static struct said name_said(const struct autopsy_finding *f)
{
	if (f->kind == AUTOPSY_HELD || f->kind == AUTOPSY_WASTE)
		return named_said(f->named);
	return SAID(named, fact_name("name", namegroup_text(f->named)));
}

/* With as much of its evidence as there is room for; returns how many lines there are, and without an e only counts them. */
static unsigned print_verdict(struct emit *e, const struct autopsy *a, unsigned room)
{
	const struct autopsy_finding *f = a->finding;
	char text[SENTENCE_MAX + SITE_MAX], sentence[SENTENCE_MAX], where[SITE_MAX];
	unsigned lines;

	if (!a->nr_findings)
		return 0;
	snprintf(text, sizeof(text), "%s%s: %s", certainty_word(f->certainty), verdict_name(f->verdict),
		 sentence_text(sentence, &f->sentence));
	lines = print_wrapped(e, "", "  ", text);
	if (f->has_site)
		lines += print_wrapped(e, "  at ", "     ", site_text(where, sizeof(where), &f->site));
	if (f->has_caller)
		lines += print_wrapped(e, "  called at ", "     ", site_text(where, sizeof(where), &f->caller));
	if (f->named && !(f->named->is_named && f->named->named.name.root == ROOT_NATIVE)) /* saved for backward, mostly */
		lines += print_said(e, "  ", "     ", name_said(f));
	for (unsigned i = 0; i < f->nr_evidence; i++) {
		if (lines + print_said(NULL, "- ", "  ", f->evidence[i]) <= room)
			lines += print_said(e, "- ", "  ", f->evidence[i]);
	}
	if (lines + print_said(NULL, "- ", "  ", f->certain_with) <= room)
		lines += print_said(e, "- ", "  ", f->certain_with);
	return lines;
}

static const struct said *smaller_input(const struct autopsy *a)
{
	for (unsigned i = 0; i < a->nr_findings; i++)
		if (a->finding[i].smaller.sentence != SAY_nothing)
			return &a->finding[i].smaller;
	return NULL;
}

/* At most so many lines of advice; none of a smaller input, which comes last (advice.c), where `smaller` tells of one. */
static unsigned print_others(struct emit *e, const struct advices *advices, const char *first, unsigned most,
			     const struct said *smaller)
{
	unsigned nr = 0;

	while (nr < advices->nr && nr < most && !(smaller && advices->advice[nr].order == ADVICE_OF_INPUT))
		nr++;
	return print_advice_brief(e, advices, first, "      ", nr);
}

/* Of what grows: how far the change that saves most would get. */
static struct said put_off_by(const struct advices *advices)
{
	const struct advice *first = &advices->advice[0];

	if (!advices->nr || !first->puts_off_until)
		return SAID_NOTHING;
	return SAID(puts_off, fact_bytes("saved", first->saved_bytes), fact_step("step", first->puts_off_until));
}

/* Are unused pieces the verdict, with no better advice than a copy, and would the allocator's setting have had none? */
static bool is_cured_by_setting(const struct autopsy *a, const struct advices *advices)
{
	const struct autopsy_finding *f = a->finding;

	return a->nr_findings && f->verdict == VERDICT_FRAGMENTATION && advices->nr &&
	       (!f->nr_advice || f->advice[0].sentence == SAY_pieces_copy_advice) &&
	       !strcmp(advices->advice[0].kind, "expandable_segments") && advices->advice[0].saved_bytes >= a->lacking;
}

/*
 * What to do: the verdict's own first advice, if it has any, what would have saved most by how much, then the rest, but for a copy, which
 * is for pieces that are the verdict; last, for it changes what the program computes, with which input it would have fitted. How far
 * changes elsewhere put it off is said if `puts_off`. Returns how many lines there are, and without an e only counts them.
 */
static unsigned print_next(struct emit *e, const struct autopsy *a, const struct advices *advices, bool puts_off)
{
	const struct said *smaller = smaller_input(a);
	unsigned shown = 0, lines = 0, brief, room = ADVICE_SHOWN - (smaller != NULL);
	unsigned most = autopsy_is_about_size(a) ? room : 0;
	bool is_cured = is_cured_by_setting(a, advices);
	struct said put_off;

	/* Before that of what is told beside it, as is the setting that needs no change of the program, and does what a copy would. */
	if (!a->nr_findings || !a->finding[0].nr_advice || is_cured)
		lines += shown = print_others(e, advices, "next: ", most, smaller);
	for (unsigned i = 0; i < a->nr_findings; i++) {
		for (unsigned k = 0; k < a->finding[i].nr_advice && shown < room; k++) {
			if ((is_cured || i) && a->finding[i].advice[k].sentence == SAY_pieces_copy_advice)
				continue;
			lines += print_said(e, shown++ ? "      " : "next: ", "      ", a->finding[i].advice[k]);
			if (shown > 1 || !most)
				continue;
			brief = print_others(e, advices, "      ", most - shown, smaller);
			shown += brief;
			lines += brief;
		}
	}
	put_off = put_off_by(advices);
	if (puts_off && put_off.sentence != SAY_nothing)
		lines += print_said(e, shown++ ? "      " : "next: ", "      ", put_off);
	return smaller ? lines + print_said(e, shown ? "      " : "next: ", "      ", *smaller) : lines;
}

static unsigned print_rest(struct emit *e, const struct autopsy *a, const struct advices *advices, bool puts_off, bool verbose)
{
	unsigned lines = print_next(e, a, advices, puts_off);

	for (unsigned i = 1; i < a->nr_findings && (verbose || i == 1); i++)
		lines += print_said(e, "also: ", "      ", a->finding[i].sentence);
	for (unsigned i = 0; i < a->nr_aside && verbose; i++)
		lines += print_said(e, i ? "           " : "set aside: ", "             ", a->aside[i]);
	return lines;
}

/* How the device was, and what is said of modules and steps where there is room for so many lines. */
static void print_state(struct emit *e, const struct autopsy *a, bool with_modules, unsigned room)
{
	unsigned lines = with_modules ? print_module_line(NULL, a) : 0;

	emit_blank(e);
	print_request(e, a);
	print_device(e, a);
	emit_blank(e);
	print_places(e, a);
	if (lines && lines + 1 <= room)
		room -= print_module_line(e, a);
	if (room)
		print_step(e, a);
}

/* Of a finding, why is known before how far something else would put it off: is there room for both? */
static bool has_room_for_both(const struct autopsy *a, unsigned rest)
{
	unsigned first = a->nr_findings && a->finding->nr_evidence ? print_said(NULL, "- ", "  ", a->finding->evidence[0]) : 0;

	return !first || print_verdict(NULL, a, 0) + first + rest <= SCREEN_LINES;
}

void print_autopsy(struct emit *e, const struct autopsy *a, const struct advices *advices, unsigned lines_after, bool verbose)
{
	uint64_t nr_zeros = a->device ? replay_zero_answers(a->device->process) : 0;
	unsigned state = 1 + (nr_zeros > 0) + STATE_LINES + lines_after, rest, room, top, part = 0;
	bool puts_off = verbose || has_room_for_both(a, state + print_rest(NULL, a, advices, true, verbose));
	char title[256], zeros[ZERO_TEXT_MAX], sentence[SENTENCE_MAX];
	struct said earlier;

	rest = state + print_rest(NULL, a, advices, puts_off, verbose);
	room = verbose ? UINT_MAX : rest < SCREEN_LINES ? SCREEN_LINES - rest : 0;

	if (a->device)
		print_said_heading(e, SAID(out_of_memory_on, fact_name("device", print_device_title(title, sizeof(title), a->replay, a->device))));
	else
		print_said_heading(e, SAID(out_of_memory_on_host, NO_FACTS));
	if (a->device && autopsy_is_about_size(a))
		part = print_parts(NULL, a);
	part = part + print_verdict(NULL, a, 0) <= room ? part : 0;
	top = print_verdict(e, a, room - part);
	room = top < room ? room - top : 0;
	earlier = SAID(may_run_out_earlier, fact_if(nr_zeros, fact_name("zeros", print_zeros(zeros, "", nr_zeros))));
	if (nr_zeros)
		emit_heading(e, "  %s", sentence_text(sentence, &earlier));
	if (part)
		part = print_parts(e, a);
	if (a->device)
		print_state(e, a, !part, room > part ? room - part : 0);
	print_rest(e, a, advices, puts_off, verbose);
}

void print_gone_on(struct emit *e, uint64_t nr)
{
	print_said_heading(e, nr == 1 ? SAID(gone_on_once, NO_FACTS) : SAID(gone_on_often, fact_many("requests", nr)));
}

void print_failures(struct emit *e, const struct replay *m, const struct replay_device *d,
		    const struct failures_of_device *failures)
{
	static const struct emit_column columns[] = {
		{ "time_ns", "after", EMIT_RIGHT, false },    { "asked_bytes", "asked", EMIT_RIGHT, false },
		{ "step", "step", EMIT_RIGHT, false },        { "end", "the program", EMIT_LEFT, true },
		{ "place", "asked for at", EMIT_LEFT, true }, { NULL, NULL, EMIT_LEFT, false },
	};
	struct stack_source source = replay_stack_source(m, d->process);
	const struct steps *steps = d->process->lives ? &d->process->lives->steps : NULL;
	bool has_phase = categories_tell_phases(d->process);
	struct stack stack = { 0 };
	char text[SITE_MAX];

	emit_table_begin(e, "failures", columns);
	for (size_t i = 0; i < failures->nr_failures; i++) {
		const struct failure *x = &failures->failure[i];
		const struct stack_frame *f;
		int site;

		stack_expand(&stack, &source, x->python_stack, x->native_stack);
		site = stack_site(&stack);
		f = site < 0 ? NULL : &stack.frame[site];
		emit_row_begin(e);
		emit_ns(e, "time_ns", NULL, x->time_ns);
		emit_bytes(e, "asked_bytes", NULL, x->asked);
		if (steps && steps_count(steps))
			emit_uint(e, "step", NULL, steps_of(steps, x->ordinal) + 1);
		else
			emit_null(e, "step", NULL);
		emit_string(e, "phase", NULL, has_phase ? phase_names[x->phase] : NULL);
		emit_uint(e, "stream", NULL, x->stream);
		emit_uint(e, "allocated_bytes", NULL, x->allocated);
		emit_uint(e, "reserved_bytes", NULL, x->reserved);
		emit_bool(e, "handled", NULL, x->handled);
		emit_label(e, "end", NULL, "%s", x->handled ? "went on" : "did not go on");
		emit_label(e, "place", NULL, "%s", f ? narrow_site_text(text, sizeof(text), f) : "-");
		print_site_of(e, f);
		emit_row_end(e);
	}
	emit_table_end(e);
	emit_uint(e, "nr_failures", NULL, failures->nr_all);
	stack_release(&stack);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_known(struct emit *e, const char *key, bool is_known, uint64_t value)
{
	if (is_known)
		emit_uint(e, key, NULL, value);
	else
		emit_null(e, key, NULL);
}

static void json_holders(struct emit *e, const struct autopsy *a)
{
	const struct modulepaths *paths = a->device->process->modulepaths;
	char text[SITE_MAX];

	emit_array_begin(e, "holders", NULL);
	for (size_t i = 0; i < a->nr_places && i < LISTED_MAX; i++) {
		const struct autopsy_place *p = &a->place[i];

		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "bytes", NULL, p->bytes);
		emit_uint(e, "count", NULL, p->blocks);
		emit_uint(e, "kept_bytes", NULL, p->kept_bytes);
		emit_string(e, "category", NULL, category_names[main_category(p)]);
		emit_string(e, "module", NULL,
			    paths && p->module ? modulepaths_text(paths, p->module, 0, text, sizeof(text))
					       : NULL);
		print_site_of(e, p->frame.file || p->frame.function ? &p->frame : NULL);
		if (p->named)
			json_name(e, p->named);
		emit_object_end(e);
	}
	emit_array_end(e);
}

static void json_modules(struct emit *e, const struct autopsy *a)
{
	const struct modulepaths *paths = a->device->process->modulepaths;
	char name[SITE_MAX];

	emit_array_begin(e, "modules", NULL);
	for (size_t i = 0; paths && i < a->modules.nr_sums && i < LISTED_MAX; i++) {
		const struct module_sum *sum = &a->modules.sum[i];

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "module", NULL,
			    sum->path ? modulepaths_text(paths, sum->path, a->modules.nr_common, name,
							 sizeof(name))
				      : NULL);
		emit_uint(e, "bytes", NULL, sum->bytes);
		emit_object_end(e);
	}
	emit_array_end(e);
}

/* How the steps before followed the shapes of their batches. */
static void json_batch(struct emit *e, const struct autopsy *a)
{
	const struct shapefit *s = &a->shape;

	if (!a->has_shape) {
		emit_null(e, "batch", NULL);
		return;
	}
	emit_object_begin(e, "batch", NULL);
	emit_array_begin(e, "shape", NULL);
	for (uint32_t i = 0; i < s->nr_dims; i++)
		emit_uint(e, NULL, NULL, s->dims[i]);
	emit_array_end(e);
	emit_string(e, "fit", NULL, s->is_quadratic ? "quadratic" : "linear");
	emit_double(e, "r_squared", NULL, s->r_squared);
	emit_uint(e, "steps", NULL, s->nr_steps);
	emit_uint(e, "largest_peak_bytes", NULL, s->largest_peak);
	emit_uint(e, "needs_bytes", NULL, (uint64_t)shapefit_at(s, s->dims));
	emit_array_begin(e, "would_have_fitted", NULL);
	for (uint32_t i = 0; i < s->nr_dims; i++) {
		uint64_t largest = a->fitting ? shapefit_largest(s, i, a->fitting) : 0;

		if (largest)
			emit_uint(e, NULL, NULL, largest);
		else
			emit_null(e, NULL, NULL);
	}
	emit_array_end(e);
	emit_object_end(e);
}

void print_autopsy_state(struct emit *e, const struct autopsy *a)
{
	const struct lives *lives = a->device->process->lives;
	const struct failure *x = a->failure;
	uint64_t bytes = 0;

	emit_object_begin(e, "state", NULL);
	json_known(e, "capacity_bytes", a->capacity, a->capacity);
	emit_uint(e, "asked_bytes", NULL, x->asked);
	json_known(e, "refused_bytes", x->refused, x->refused);
	emit_uint(e, "reserved_bytes", NULL, x->reserved);
	emit_uint(e, "allocated_bytes", NULL, x->allocated);
	emit_uint(e, "cached_bytes", NULL, a->cached);
	json_known(e, "free_bytes", x->free_known, x->free);
	json_known(e, "lacking_bytes", x->free_known && x->refused, a->lacking);
	json_known(e, "largest_fit_bytes", x->free_known, a->largest_fit);
	json_known(e, "outside_bytes", a->outside_known, a->outside);
	emit_uint(e, "libraries_bytes", NULL, a->libraries);
	json_known(e, "other_processes_bytes", x->others_known, x->other_processes);
	json_known(e, "context_bytes", x->context, x->context);
	emit_string(e, "operation", NULL, *a->operation ? a->operation : NULL);
	json_known(e, "step", a->step, a->step);
	json_known(e, "step_began_with_bytes",
		   a->step > 1 && lives_step_bytes(lives, a->device->ordinal, a->step - 1, &bytes), bytes);
	json_known(e, "previous_step_began_with_bytes",
		   a->step > 2 && lives_step_bytes(lives, a->device->ordinal, a->step - 2, &bytes), bytes);
	json_batch(e, a);
	print_parts_object(e, a);
	emit_object_begin(e, "categories", NULL);
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (category_has_row(i, a->categories.sum[i].bytes))
			emit_uint(e, category_names[i], NULL, a->categories.sum[i].bytes);
	emit_object_end(e);
	emit_object_end(e);
	json_holders(e, a);
	json_modules(e, a);
}

/* In words. */
static void json_texts(struct emit *e, const struct autopsy_finding *f)
{
	emit_array_begin(e, "evidence", NULL);
	sentence_json_text(e, &f->sentence);
	for (unsigned k = 0; k < f->nr_evidence; k++)
		sentence_json_text(e, &f->evidence[k]);
	emit_array_end(e);
	emit_array_begin(e, "advice", NULL);
	for (unsigned k = 0; k < f->nr_advice; k++)
		sentence_json_text(e, &f->advice[k]);
	sentence_json_text(e, &f->smaller);
	emit_array_end(e);
}

/* The same as data: of the first line of evidence, of the others, of the advice. */
static void json_facts(struct emit *e, const struct autopsy_finding *f)
{
	sentence_json(e, "facts", &f->sentence);
	sentence_json_facts(e, "evidence_facts", f->evidence, f->nr_evidence);
	emit_array_begin(e, "advice_facts", NULL);
	for (unsigned k = 0; k < f->nr_advice; k++)
		sentence_json(e, NULL, &f->advice[k]);
	if (f->smaller.sentence != SAY_nothing)
		sentence_json(e, NULL, &f->smaller);
	emit_array_end(e);
}

void print_autopsy_finding_objects(struct emit *e, const struct autopsy *a)
{
	for (unsigned i = 0; a && i < a->nr_findings; i++) {
		const struct autopsy_finding *f = &a->finding[i];

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(f->verdict));
		emit_string(e, "cause", NULL, f->cause);
		print_site_of(e, f->has_site ? &f->site : NULL);
		if (f->has_caller)
			print_frame_of(e, "caller", &f->caller);
		else
			emit_null(e, "caller", NULL);
		emit_uint(e, "bytes", NULL, f->bytes);
		emit_string(e, "certainty", NULL, certainty_name(f->certainty));
		if (f->certain_with.sentence != SAY_nothing)
			sentence_json(e, "certain_with", &f->certain_with);
		json_texts(e, f);
		json_facts(e, f);
		if (f->named)
			json_name(e, f->named);
		if (f->named && is_kept(f))
			json_let_go(e, f->named, f->verdict == VERDICT_GRAPH_RETENTION);
		emit_object_end(e);
	}
}

void print_autopsy_findings(struct emit *e, const struct autopsy *a)
{
	emit_array_begin(e, "findings", NULL);
	print_autopsy_finding_objects(e, a);
	emit_array_end(e);
	emit_array_begin(e, "set_aside", NULL);
	for (unsigned i = 0; a && i < a->nr_aside; i++) {
		const struct fact *cause = said_fact(&a->aside[i], "cause");
		char text[SENTENCE_MAX];

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "cause", NULL, cause ? cause->text : NULL);
		emit_string(e, "evidence", NULL, sentence_text(text, &a->aside[i]));
		sentence_json(e, "facts", &a->aside[i]);
		emit_object_end(e);
	}
	emit_array_end(e);
}
