/* SPDX-License-Identifier: MIT */
/* Breaking sentences between words. */
#include "analyzer/cmds/print_wrapped.h"

#include <string.h>

#define LINE_COLUMNS 78

unsigned print_wrapped(struct emit *e, const char *first, const char *indent, const char *text)
{
	const char *lead = first;
	unsigned lines = 0;

	while (*text) {
		size_t room = LINE_COLUMNS - strlen(lead), n = strlen(text);

		if (n > room) {
			for (n = room; n && text[n] != ' '; n--)
				;
			if (!n)
				n = room;
		}
		emit_text(e, "%s%.*s", lead, (int)n, text);
		lines++;
		text += n;
		text += strspn(text, " ");
		lead = indent;
	}
	return lines;
}
