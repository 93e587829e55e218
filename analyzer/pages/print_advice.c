/* SPDX-License-Identifier: MIT */
/* Printing advice. */
#include "analyzer/pages/print_advice.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/pages/print_oom.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"

#define TITLE_MAX 54 /* indented and with its figure, a line of the screen */

/* A title that is too long loses of the middle of its file's name: the line must not be cut. */
static const char *title_text(char buf[static SENTENCE_MAX], const struct advice *a)
{
	char *name = NULL, *end;
	size_t length, over;

	sentence_text(buf, &a->title);
	length = strlen(buf);
	for (char *at = buf; (at = strstr(at, " at ")); at++)
		name = at;
	end = name ? strrchr(name, '.') : NULL; /* of its extension */
	over = length < TITLE_MAX ? 0 : length - TITLE_MAX + 2; /* with room for a '~' */
	if (over && end && (size_t)(end - name) > strlen(" at ") + over) {
		end[-(ptrdiff_t)over] = '~';
		memmove(end - over + 1, end, strlen(end) + 1);
	}
	buf[TITLE_MAX - 1] = 0;
	return buf;
}

unsigned print_advice_brief(struct emit *e, const struct advices *all, const char *first, const char *indent, unsigned most)
{
	char saved[HUMAN_MAX], title[SENTENCE_MAX];
	unsigned nr = all->nr < most ? all->nr : most;

	for (unsigned i = 0; e && i < nr; i++)
		emit_text(e, "%s%s (saves %s%s%s)", i ? indent : first, title_text(title, &all->advice[i]),
			  all->advice[i].at_least ? ">= " : "", human_bytes(saved, all->advice[i].saved_bytes),
			  all->advice[i].of_reserved ? " of what is reserved" : "");
	return nr;
}

/* What was, and what would be; after a failure the step was never seen, and its figures go up to where a pass ends. */
static struct said saving_said(const struct advices *all, const struct advice *a)
{
	struct fact before = fact_bytes("before", a->peak_bytes), after = fact_bytes("after", a->after_bytes);
	struct fact share = fact_share("share", (double)a->saved_bytes, (double)a->peak_bytes);
	struct fact to_failure = fact_flag("to_failure", all->at_failure && !a->of_forward);
	struct fact to_backward = fact_flag("to_backward", all->at_failure && a->of_forward && a->of_backward);
	struct fact to_forward = fact_flag("to_forward", all->at_failure && a->of_forward && !a->of_backward);
	struct fact is_other = fact_flag("is_other", !a->keeps_result);

	return SAID(saving, fact_flag("of_reserved", a->of_reserved), fact_flag("of_allocated", !a->of_reserved), before, after, share, to_failure,
		    to_backward, to_forward, fact_flag("fits", a->fit == ADVICE_FITS), fact_flag("lacks", a->fit == ADVICE_LACKS), is_other);
}

void print_advice(struct emit *e, const struct advices *all, unsigned most)
{
	char saved[HUMAN_MAX], text[SENTENCE_MAX];

	for (unsigned i = 0; i < all->nr && i < most; i++) {
		const struct advice *a = &all->advice[i];

		emit_blank(e);
		emit_heading(e, "%s (saves %s%s)", title_text(text, a), a->at_least ? ">= " : "",
			     human_bytes(saved, a->saved_bytes));
		print_said(e, "  ", "  ", saving_said(all, a));
		print_said(e, "  do:   ", "        ", a->action);
		print_said(e, "  why:  ", "        ", a->evidence);
		print_said(e, "  cost: ", "        ", a->cost);
	}
}

void json_advice(struct emit *e, const struct advices *all, unsigned most)
{
	char text[SENTENCE_MAX];

	emit_array_begin(e, "advice", NULL);
	for (unsigned i = 0; i < all->nr && i < most; i++) {
		const struct advice *a = &all->advice[i];

		emit_object_begin(e, NULL, NULL);
		emit_string(e, "kind", NULL, a->kind);
		print_device_identity(e, all->device);
		emit_string(e, "of", NULL, a->of_reserved ? "reserved" : "allocated");
		emit_uint(e, "peak_bytes", NULL, a->peak_bytes);
		emit_uint(e, "after_bytes", NULL, a->after_bytes);
		emit_uint(e, "saved_bytes", NULL, a->saved_bytes);
		emit_bool(e, "keeps_result", NULL, a->keeps_result);
		if (all->at_failure)
			emit_string(e, "until", NULL, a->of_backward ? "backward" : a->of_forward ? "forward" : "failure");
		else
			emit_null(e, "until", NULL);
		emit_bool(e, "at_least", NULL, a->at_least);
		if (a->fit == ADVICE_FIT_UNKNOWN)
			emit_null(e, "enough", NULL);
		else
			emit_bool(e, "enough", NULL, a->fit == ADVICE_FITS);
		if (a->puts_off_until)
			emit_uint(e, "puts_off_until_step", NULL, a->puts_off_until);
		else
			emit_null(e, "puts_off_until_step", NULL);
		emit_string(e, "title", NULL, title_text(text, a));
		emit_string(e, "action", NULL, sentence_text(text, &a->action));
		emit_string(e, "evidence", NULL, sentence_text(text, &a->evidence));
		emit_string(e, "cost", NULL, sentence_text(text, &a->cost));
		sentence_json(e, "title_facts", &a->title);
		sentence_json(e, "action_facts", &a->action);
		sentence_json(e, "facts", &a->evidence);
		sentence_json(e, "cost_facts", &a->cost);
		print_site_of(e, a->has_site ? &a->site : NULL);
		emit_object_end(e);
	}
	emit_array_end(e);
}
