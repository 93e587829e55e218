/* SPDX-License-Identifier: MIT */
/* Breaking sentences between words. */
#include "analyzer/ui/print_wrapped.h"

#include <string.h>

#define LINE_COLUMNS 78 /* so that what is counted beforehand fits in a scope with a title, too */

/* A space, but not the one between a number and its unit. */
static bool may_break(const char *at)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t n;

	if (*at != ' ')
		return false;
	n = strcspn(++at, " ,.;:)");
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (n == strlen(units[i]) && !strncmp(at, units[i], n))
			return false;
	return true;
}

unsigned print_wrapped(struct emit *e, const char *first, const char *indent, const char *text)
{
	size_t columns = e && emit_text_columns(e) < LINE_COLUMNS ? (size_t)emit_text_columns(e) : LINE_COLUMNS;
	const char *lead = first;
	unsigned lines = 0;

	while (*text) {
		size_t room = columns - strlen(lead), n = strlen(text);

		if (n > room) {
			for (n = room; n && !may_break(text + n); n--)
				;
			if (!n)
				n = room;
		}
		if (e)
			emit_text(e, "%s%.*s", lead, (int)n, text);
		lines++;
		text += n;
		text += strspn(text, " ");
		lead = indent;
	}
	return lines;
}
