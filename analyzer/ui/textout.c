/* SPDX-License-Identifier: MIT */
/* Lines of text with aligned labels. */
#include "analyzer/ui/textout.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

void textout_flush(struct textout *t)
{
	int width = 0;

	for (size_t i = 0; i < t->nr_pairs; i++) {
		int w = term_text_width(t->pairs[i].label, strlen(t->pairs[i].label));

		width = w > width ? w : width;
	}
	for (size_t i = 0; i < t->nr_pairs; i++) {
		const struct textout_pair *p = &t->pairs[i];
		int blanks = width - term_text_width(p->label, strlen(p->label));

		fprintf(t->out, "%*s%s%*s  %s\n", t->indent, "", p->label, blanks, "", p->value);
		free(p->label);
		free(p->value);
	}
	t->nr_pairs = 0;
}

void textout_pair(struct textout *t, const char *label, const char *value)
{
	struct textout_pair *p;

	if (t->nr_pairs == t->room) {
		t->room = t->room ? 2 * t->room : 16;
		t->pairs = heap_need(reallocarray(t->pairs, t->room, sizeof(*t->pairs)));
	}
	p = &t->pairs[t->nr_pairs++];
	p->label = heap_need(strdup(label));
	p->value = heap_need(strdup(value));
	term_make_printable(p->value, t->colored);
}

void textout_line(struct textout *t, enum term_style style, char *text)
{
	bool styled = t->colored && style != TERM_PLAIN;

	textout_flush(t);
	term_make_printable(text, t->colored);
	fprintf(t->out, "%*s%s%s%s\n", *text ? t->indent : 0, "", term_style(style, styled), text,
		term_style(TERM_PLAIN, styled));
}

void textout_release(struct textout *t)
{
	textout_flush(t);
	free(t->pairs);
	t->pairs = NULL;
}
