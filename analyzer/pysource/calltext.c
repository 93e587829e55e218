/* SPDX-License-Identifier: MIT */
/* No parser: a few forms, told by words, brackets and indentation. */
#include "analyzer/pysource/calltext.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DECORATOR_LINES 8 /* a method's own line is looked for so far below its first decorator, */
#define METHOD_LINES 300  /* ... and so far above what stands within it */
#define PARAMETER_LINES 16

bool calltext_is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

bool calltext_line(char buf[static CALLTEXT_MAX], struct sourcetext *s, const struct tfmt_code *code, uint32_t line)
{
	size_t len, skip = 0;
	const char *text = sourcetext_line(s, code->file, line, &len);

	if (!text)
		return false;
	while (skip < len && isspace((unsigned char)text[skip]))
		skip++;
	len = len - skip < CALLTEXT_MAX ? len - skip : CALLTEXT_MAX - 1;
	memcpy(buf, text + skip, len);
	buf[len] = 0;
	return true;
}

bool calltext_begins_with(const char *text, const char *name, size_t len)
{
	return !strncmp(text, name, len) && !calltext_is_name(text[len]);
}

const char *calltext_find_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
		if ((p == text || !calltext_is_name(p[-1])) && !calltext_is_name(p[len]))
			return p;
	return NULL;
}

int calltext_open_brackets(const char *text, size_t len)
{
	int open = 0;

	for (size_t i = 0; i < len; i++)
		open += (strchr("([{", text[i]) != NULL) - (strchr(")]}", text[i]) != NULL);
	return open;
}

size_t calltext_indentation(struct sourcetext *s, const struct tfmt_code *code, uint32_t line)
{
	const char *text;
	size_t len, nr = 0;

	text = sourcetext_line(s, code->file, line, &len);
	while (text && nr < len && isspace((unsigned char)text[nr]))
		nr++;
	return text && nr < len ? nr : SIZE_MAX;
}

const char *calltext_member_of(const char *text, const char *owner)
{
	size_t len = strlen(owner);

	return !strncmp(text, owner, len) && text[len] == '.' ? text + len + 1 : NULL;
}

void calltext_copy(char out[static CALLSITE_NAME_MAX], const char *from, size_t len)
{
	snprintf(out, CALLSITE_NAME_MAX, "%.*s", (int)(len < CALLSITE_NAME_MAX ? len : CALLSITE_NAME_MAX - 1), from);
}

const char *calltext_listed(const char *text, uint32_t nr, size_t *len)
{
	int open = 0;

	text += strspn(text, " ");
	for (const char *p = text;; p++) {
		bool ends = !*p || (!open && strchr(")]}", *p));

		if (ends || (!open && *p == ',')) {
			*len = (size_t)(p - text);
			while (*len && text[*len - 1] == ' ')
				--*len;
			if (!nr--)
				return *len ? text : NULL;
			if (ends)
				return NULL;
			text = p + 1 + strspn(p + 1, " ");
		} else {
			open += (strchr("([{", *p) != NULL) - (strchr(")]}", *p) != NULL);
		}
	}
}

/*
 * The function that the code is, or is within: "forward" of "GPT.forward.<locals>.<listcomp>", and of the
 * class that is in a function, "main.<locals>.Net.forward".
 */
static const char *outermost(const struct tfmt_code *code, size_t *len)
{
	static const char within[] = ".<locals>.";
	size_t end = strlen(code->name), begin, nr = sizeof(within) - 1;

	for (;;) {
		for (begin = end; begin && code->name[begin - 1] != '.';)
			begin--;
		if (begin <= nr || memcmp(code->name + begin - nr, within, nr))
			break;
		end = begin - nr;
	}
	*len = end - begin;
	return code->name + begin;
}

static bool is_within(const struct tfmt_code *code, const char *name, size_t len)
{
	return name[len] || code->name[0] == '<';
}

const char *calltext_function(const struct tfmt_code *code, size_t *len)
{
	const char *dot = strrchr(code->name, '.'), *name = dot ? dot + 1 : code->name;

	*len = strlen(name);
	return name;
}

/* The line's own text behind "def NAME("; NULL if it is none. */
static const char *defines(const char *line, const char *name, size_t len)
{
	const char *p = line + (strncmp(line, "async ", 6) ? 0 : 6);

	if (strncmp(p, "def ", 4) || !calltext_begins_with(p + 4, name, len))
		return NULL;
	p = strchr(p, '(');
	return p ? p + 1 : NULL;
}

/*
 * The line that begins "def NAME(", 0 if it is not found. The code begins with its decorators; what is
 * (`within`) another function lies further down in that.
 */
static uint32_t definition(struct sourcetext *s, const struct tfmt_code *code, const char *name, size_t len,
			   bool within)
{
	char line[CALLTEXT_MAX];

	for (uint32_t nr = 0;
	     nr < (within ? METHOD_LINES : DECORATOR_LINES) && (!within || nr < code->first_line); nr++) {
		uint32_t i = within ? code->first_line - nr : code->first_line + nr;

		if (calltext_line(line, s, code, i) && defines(line, name, len))
			return i;
	}
	return 0;
}

uint32_t calltext_first_line(struct sourcetext *s, const struct tfmt_code *code)
{
	size_t len;
	const char *name = outermost(code, &len);
	uint32_t line = is_within(code, name, len) ? definition(s, code, name, len, true) : 0;

	return line ? line : code->first_line;
}

/* What stands behind "def NAME(" on that line, and on the next ones as long as its brackets are open. */
static bool parameters(char buf[static CALLTEXT_MAX], struct sourcetext *s, const struct tfmt_code *code, uint32_t line,
		       const char *name, size_t len)
{
	char text[CALLTEXT_MAX];
	const char *begin;
	size_t nr;

	if (!line || !calltext_line(text, s, code, line) || !(begin = defines(text, name, len)))
		return false;
	nr = (size_t)snprintf(buf, CALLTEXT_MAX, "%s", begin);
	for (uint32_t i = line + 1; i < line + PARAMETER_LINES && calltext_open_brackets(buf, nr) >= 0 &&
				    calltext_line(text, s, code, i) && nr + strlen(text) + 2 < CALLTEXT_MAX; i++)
		nr += (size_t)snprintf(buf + nr, CALLTEXT_MAX - nr, " %s", text);
	return true;
}

/* Is this code's first parameter the object that it is a method of? */
static bool is_method(struct sourcetext *s, const struct tfmt_code *code)
{
	char text[CALLTEXT_MAX];
	size_t len;
	const char *name = outermost(code, &len);

	return name > code->name && len &&
	       !(calltext_line(text, s, code, code->first_line) && strstr(text, "@staticmethod"));
}

void calltext_owner(char out[static CALLSITE_NAME_MAX], struct sourcetext *s, const struct tfmt_code *code)
{
	size_t len;
	const char *name = outermost(code, &len), *first;
	char text[CALLTEXT_MAX];

	strcpy(out, "self");
	if (!is_method(s, code) ||
	    !parameters(text, s, code, definition(s, code, name, len, is_within(code, name, len)), name, len))
		return;
	first = calltext_listed(text, 0, &len);
	for (len = 0; first && calltext_is_name(first[len]);)
		len++;
	if (len && len < CALLSITE_NAME_MAX)
		calltext_copy(out, first, len);
}

int calltext_parameter(struct sourcetext *s, const struct tfmt_code *code, const char *name, size_t len)
{
	size_t function_len, listed_len;
	const char *function = calltext_function(code, &function_len), *listed;
	const char *outer = outermost(code, &listed_len);
	uint32_t own = !is_within(code, outer, listed_len) && is_method(s, code);
	char text[CALLTEXT_MAX];

	if (!parameters(text, s, code, definition(s, code, function, function_len, false), function, function_len))
		return -1;
	for (uint32_t i = own; (listed = calltext_listed(text, i, &listed_len)) && *listed != '*'; i++)
		if (calltext_begins_with(listed, name, len))
			return (int)(i - own);
	return -1;
}

bool calltext_enclosing(struct tfmt_code *outer, char name[static CALLTEXT_MAX], struct sourcetext *s,
			const struct tfmt_code *code)
{
	static const char within[] = ".<locals>.";
	const char *end = NULL, *function;
	size_t len;

	for (const char *p = strstr(code->name, within); p; p = strstr(p + 1, within))
		end = p;
	if (!end)
		return false;
	snprintf(name, CALLTEXT_MAX, "%.*s", (int)(end - code->name), code->name);
	*outer = *code;
	outer->name = name;
	function = calltext_function(outer, &len);
	outer->first_line = definition(s, code, function, len, true);
	return outer->first_line;
}
