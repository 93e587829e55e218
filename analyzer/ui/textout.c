/* SPDX-License-Identifier: MIT */
/* Lines of text with aligned labels. */
#include "analyzer/ui/textout.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/table.h"

/* Length of a colour sequence at s, 0 if there is none. */
static size_t color_sequence(const char *s)
{
	size_t n;

	if (s[0] != '\033' || s[1] != '[')
		return 0;
	n = 2 + strspn(s + 2, "0123456789;");
	return s[n] == 'm' ? n + 1 : 0;
}

void textout_make_printable(char *text, bool colored)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len;) {
		size_t skip = colored ? color_sequence(text + i) : 0;
		uint32_t point;
		int n;

		if (skip) {
			i += skip;
			continue;
		}
		n = term_decode_utf8(text + i, len - i, &point);
		if (!n || point < 0x20 || (point >= 0x7f && point < 0xa0)) {
			n = n ? n : 1;
			memmove(text + i + 1, text + i + n, len - i - (size_t)n + 1);
			text[i] = '?';
			len -= (size_t)n - 1;
			n = 1;
		}
		i += (size_t)n;
	}
}

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
		t->pairs = table_need(reallocarray(t->pairs, t->room, sizeof(*t->pairs)));
	}
	p = &t->pairs[t->nr_pairs++];
	p->label = table_need(strdup(label));
	p->value = table_need(strdup(value));
	textout_make_printable(p->value, t->colored);
}

void textout_line(struct textout *t, enum term_style style, char *text)
{
	bool styled = t->colored && style != TERM_PLAIN;

	textout_flush(t);
	textout_make_printable(text, t->colored);
	fprintf(t->out, "%*s%s%s%s\n", *text ? t->indent : 0, "", term_style(style, styled), text,
		term_style(TERM_PLAIN, styled));
}

void textout_release(struct textout *t)
{
	textout_flush(t);
	free(t->pairs);
	t->pairs = NULL;
}
