/* SPDX-License-Identifier: MIT */
/* Words and assignments in a line of source. */
#include "analyzer/pysource/sourcewords.h"

#include <ctype.h>
#include <string.h>

bool sourcewords_is_part(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t blanks(const char *text, size_t len)
{
	size_t nr = 0;

	while (nr < len && isspace((unsigned char)text[nr]))
		nr++;
	return nr;
}

/* Brackets that the character opens, less those that it closes. */
static int opens(char c)
{
	return (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
}

/* The value after the "=" that the text begins with, or the blanks before it; NULL if there is none. */
static const char *given(const char *text, size_t len)
{
	size_t at = blanks(text, len);

	if (at + 1 >= len || text[at] != '=' || text[at + 1] == '=')
		return NULL;
	at++;
	return text + at + blanks(text + at, len - at);
}

const char *sourcewords_assigned(const char *text, size_t len)
{
	const char *value;
	int open = 0;

	for (size_t at = 0; at < len; at++) {
		open += opens(text[at]);
		if (open || text[at] != '=' || (at && strchr("=!<>+-*/%&|^@:", text[at - 1])))
			continue;
		value = given(text + at, len - at);
		if (value)
			return value;
	}
	return NULL;
}
