/* SPDX-License-Identifier: MIT */
/* Loops by indentation. No parser: what stands deeper than the line that begins a loop, below it, is its body. */
#include "analyzer/pysource/sourceloops.h"

#include <ctype.h>
#include <string.h>

#include "analyzer/stacks/pylines.h"

#define LINES_MAX 1000 /* of a function, and of a loop */
#define BLANK SIZE_MAX

/* How many blanks a line begins with; BLANK for one with nothing else, a comment, or no line at all. */
static size_t indentation(struct sourcetext *s, const char *file, uint32_t line, const char **text, size_t *len)
{
	size_t nr = 0;

	*text = sourcetext_line(s, file, line, len);
	while (*text && nr < *len && isspace((unsigned char)(*text)[nr]))
		nr++;
	if (!*text || nr == *len || (*text)[nr] == '#')
		return BLANK;
	*text += nr;
	*len -= nr;
	return nr;
}

static bool has_prefix(const char *text, size_t len, const char *prefix)
{
	size_t nr = strlen(prefix);

	return len > nr && !memcmp(text, prefix, nr);
}

static bool has(const char *text, size_t len, const char *word)
{
	for (; len > strlen(word); text++, len--)
		if (has_prefix(text, len, word))
			return true;
	return false;
}

static bool begins_loop(const char *text, size_t len)
{
	return has_prefix(text, len, "for ") || has_prefix(text, len, "while ") || has_prefix(text, len, "async for ");
}

/* `for x in y: f(x)`, on one line. */
static bool has_own_body(const char *text, size_t len)
{
	while (len && isspace((unsigned char)text[len - 1]))
		len--;
	return text[len - 1] != ':';
}

/* Does the line's own statement, that begins a loop, run in it, too? The condition does, and what follows the colon. */
static bool is_in_own_loop(const char *text, size_t len)
{
	return has_prefix(text, len, "while ") || has_own_body(text, len);
}

/* `[layer(x) for layer in self.layers]`, on this line or with what is gone through on one of the next. */
static bool is_in_comprehension(struct sourcetext *s, const char *file, uint32_t line)
{
	const char *text;
	size_t len;

	for (uint32_t i = line; i < line + 3; i++) {
		if (indentation(s, file, i, &text, &len) == BLANK)
			return false;
		if (i > line && begins_loop(text, len))
			return !memchr(text, ':', len); /* that of a statement has one */
		if (i == line && !begins_loop(text, len) && has(text, len, " for ") && has(text, len, " in "))
			return true;
	}
	return false;
}

static uint32_t last_line(struct sourcetext *s, const char *file, uint32_t first, size_t outer)
{
	uint32_t last = first;
	const char *text;
	size_t len, indent;

	for (uint32_t i = first + 1; i < first + LINES_MAX; i++) {
		indent = indentation(s, file, i, &text, &len);
		if (!text || (indent != BLANK && indent <= outer))
			break;
		last = indent == BLANK ? last : i;
	}
	return last;
}

static void add(struct sourceloops *s, uint32_t first, uint32_t last)
{
	if (s->nr < SOURCELOOPS_MAX)
		s->loop[s->nr++] = (struct sourceloop){ first, last };
}

/* "<listcomp>", "<genexpr>" and the like are codes of their own before Python 3.12. */
static bool is_comprehension(const struct tfmt_code *code)
{
	size_t len = strlen(code->name);

	return len && code->name[len - 1] == '>' && !strstr(code->name, "<lambda>") && strcmp(code->name, "<module>");
}

struct sourceloops sourceloops_find(struct sourcetext *s, const struct tfmt_code *code, int32_t position)
{
	uint32_t line = pylines_line(code, position), lowest = line > LINES_MAX ? line - LINES_MAX : 1;
	struct sourceloops found = { 0 };
	const char *text;
	size_t len, outer = indentation(s, code->file, line, &text, &len), indent;

	if (outer == BLANK)
		return found;
	found.known = true;
	found.indentation = (uint32_t)outer + (has_prefix(text, len, "if ") && has_own_body(text, len));
	if (is_comprehension(code)) {
		add(&found, 0, UINT32_MAX);
		return found;
	}
	if (begins_loop(text, len) ? is_in_own_loop(text, len) : is_in_comprehension(s, code->file, line))
		add(&found, line, last_line(s, code->file, line, outer));
	for (uint32_t i = line - 1; i >= lowest && i >= code->first_line && i; i--) {
		indent = indentation(s, code->file, i, &text, &len);
		if (indent >= outer)
			continue; /* a blank one, too */
		outer = indent;
		if (begins_loop(text, len))
			add(&found, i, last_line(s, code->file, i, indent));
	}
	return found;
}

bool sourceloops_have(const struct sourceloops *s, const struct sourceloop *loop)
{
	for (uint32_t i = 0; i < s->nr; i++)
		if (s->loop[i].first == loop->first && s->loop[i].last == loop->last)
			return true;
	return false;
}

const struct sourceloop *sourceloops_common(const struct sourceloops *a, const struct sourceloops *b)
{
	for (uint32_t i = 0; i < a->nr; i++)
		if (sourceloops_have(b, &a->loop[i]))
			return &a->loop[i];
	return NULL;
}
