/* SPDX-License-Identifier: MIT */
/* Reading a call's expression, and the loops and assignments that its names come from. No parser: a few forms. */
#include "analyzer/callsite.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/pylines.h"

#define TEXT_MAX 1024
#define STATEMENT_LINES 12 /* a statement that makes a module is looked for so far above the call */

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A line, terminated and without leading blanks; false if it cannot be had. */
static bool line_of(char buf[static TEXT_MAX], struct sourcetext *s, const struct tfmt_code *code, uint32_t line)
{
	size_t len, skip = 0;
	const char *text = sourcetext_line(s, code->file, line, &len);

	if (!text)
		return false;
	while (skip < len && isspace((unsigned char)text[skip]))
		skip++;
	len = len - skip < TEXT_MAX ? len - skip : TEXT_MAX - 1;
	memcpy(buf, text + skip, len);
	buf[len] = 0;
	return true;
}

/* The first line of the call, from its first character on; false where the table or the file does not have it. */
static bool call_text(char buf[static TEXT_MAX], struct sourcetext *s, const struct tfmt_code *code, int32_t position,
		      struct pylines_span *out)
{
	struct pylines_span span;
	const char *text;
	size_t len;

	if (!pylines_span(code, position, &span))
		return false;
	*out = span;
	text = sourcetext_line(s, code->file, span.line, &len);
	if (!text || span.column >= len)
		return false;
	if (span.end_line == span.line && span.end_column <= len)
		len = span.end_column;
	len = len - span.column < TEXT_MAX ? len - span.column : TEXT_MAX - 1;
	memcpy(buf, text + span.column, len);
	buf[len] = 0;
	return true;
}

/* Up to the parenthesis that begins the call's arguments; NULL if there is none. */
static char *arguments_of(char *text)
{
	int brackets = 0;

	for (; *text; text++) {
		brackets += (*text == '[') - (*text == ']');
		if (*text == '(' && !brackets)
			return text;
	}
	return NULL;
}

static void copy(char out[static CALLSITE_NAME_MAX], const char *from, size_t len)
{
	snprintf(out, CALLSITE_NAME_MAX, "%.*s", (int)(len < CALLSITE_NAME_MAX ? len : CALLSITE_NAME_MAX - 1), from);
}

/* "layers[i].attn" behind "self.": a name, an index perhaps, and what follows. */
static bool read_member(struct callsite *c, const char *text)
{
	size_t len = 0, end;

	while (is_name(text[len]) || text[len] == '.')
		len++;
	copy(c->name, text, len);
	if (text[len] != '[')
		return len > 0;
	end = len + strcspn(text + len, "]");
	if (text[len + 1] == '"' || text[len + 1] == '\'')
		snprintf(c->behind, sizeof(c->behind), "%.*s", (int)(end > len + 3 ? end - len - 3 : 0), text + len + 2);
	else
		c->indexed = true;
	if (text[end] == ']' && text[end + 1] == '.' && c->indexed)
		copy(c->behind, text + end + 2, strlen(text + end + 2));
	return len > 0;
}

/* `text` begins with this name as a whole word. */
static bool begins_with(const char *text, const char *name, size_t len)
{
	return !strncmp(text, name, len) && !is_name(text[len]);
}

/* In "for i, (layer, past) in enumerate(zip(self.h, pasts)):", is `name` among what is bound? Where " in " ends. */
static const char *loop_over(const char *line, const char *name, size_t len)
{
	const char *in = strstr(line, " in ");

	if (strncmp(line, "for ", 4) || !in)
		return NULL;
	for (const char *p = line + 4; p < in; p++)
		if (!is_name(p[-1]) && begins_with(p, name, len))
			return in + 4;
	return NULL;
}

/* Where the local variable that is called comes from: a loop over a member, or an assignment of one. */
static bool read_variable(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line,
			  const char *text)
{
	char above[TEXT_MAX], behind[CALLSITE_NAME_MAX] = "";
	size_t len = 0;

	while (is_name(text[len]))
		len++;
	if (!len)
		return false;
	if (text[len] == '.')
		copy(behind, text + len + 1, strcspn(text + len + 1, "(["));
	for (uint32_t i = line; i >= code->first_line && line_of(above, s, code, i); i--) {
		const char *over = loop_over(above, text, len), *self = over ? strstr(over, "self") : NULL;

		if (self) {
			c->indexed = true;
			if (self[4] == '.')
				copy(c->name, self + 5, strspn(self + 5, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
			copy(c->behind, behind, strlen(behind));
			return true;
		}
		if (i < line && begins_with(above, text, len) && !strncmp(above + len, " = self.", 8)) {
			if (!read_member(c, above + len + 8))
				return false;
			if (*behind)
				copy(c->behind, behind, strlen(behind));
			return true;
		}
	}
	copy(c->name, text, strcspn(text, "([ ,)"));
	c->is_variable = true;
	return true;
}

/* `checkpoint(part, h)` and the like call what they are given. */
static char *called(char *text)
{
	char *open = arguments_of(text), *end;

	if (!open)
		return NULL;
	*open = 0;
	if (strstr(text, "checkpoint")) {
		text = open + 1;
		text[strcspn(text, ",)")] = 0;
	}
	end = text + strlen(text);
	if (end - text > 9 && !strcmp(end - 9, ".__call__"))
		end[-9] = 0;
	if (end - text > 8 && !strcmp(end - 8, ".forward"))
		end[-8] = 0;
	return text;
}

/* Brackets that are opened less those that are closed. */
static int open_brackets(const char *text, size_t len)
{
	int open = 0;

	for (size_t i = 0; i < len; i++)
		open += (strchr("([{", text[i]) != NULL) - (strchr(")]}", text[i]) != NULL);
	return open;
}

/* In "self.gate, self.up = Linear(...), Linear(...)": the name for the expression at this column of the text. */
static const char *nth_target(const char *text, size_t column)
{
	const char *equals = strstr(text, " = "), *name = text;
	int nr = 0;

	if (!equals || (size_t)(equals - text) > column)
		return NULL;
	for (const char *p = equals + 3; p < text + column; p++)
		nr += *p == ',' && !open_brackets(equals + 3, (size_t)(p - equals - 3));
	for (; nr && name; nr--) {
		name = strchr(name, ',');
		name = name && name < equals ? name + 1 + strspn(name + 1, " ") : NULL;
	}
	return name;
}

/* The statement that this line begins gives what is made a name, or puts it into a list of that name. */
static bool read_statement(struct callsite *c, const struct tfmt_code *code, const char *text, size_t column)
{
	const char *name = nth_target(text, column), *end;
	bool self, appends;

	name = name ? name : text;
	self = !strncmp(name, "self.", 5);
	name += self ? 5 : 0;
	for (end = name; is_name(*end);)
		end++;
	appends = self && (!strncmp(end, ".append(", 8) || *end == '[');
	if (end == name || (!appends && strncmp(end, " =", 2) && *end != ',' && strncmp(end, ": ", 2)))
		return false;
	copy(c->name, name, (size_t)(end - name));
	c->is_variable = !self;
	/* Made in a comprehension, or in what stands in a list: "<listcomp>", "<genexpr>". */
	c->indexed = appends || strstr(text, "ModuleList") || strstr(text, "Sequential") ||
		     strstr(code->name, "<listcomp>") || strstr(code->name, "<genexpr>");
	return true;
}

/* The statement that the call is a part of, on its own line or above, where brackets are still open. */
static bool read_target(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line,
			uint32_t column)
{
	char text[TEXT_MAX];
	size_t len, blanks;
	int open = 1;

	if (!sourcetext_line(s, code->file, line, &len) || !line_of(text, s, code, line))
		return false;
	blanks = len > strlen(text) ? len - strlen(text) : 0;
	for (uint32_t i = line; i && i + STATEMENT_LINES > line && line_of(text, s, code, i); i--) {
		if (i < line)
			open += open_brackets(text, strlen(text));
		if (open > (i < line) && read_statement(c, code, text, i == line && column > blanks ? column - blanks : strlen(text)))
			return true;
		if (i == line)
			open = 1;
	}
	return false;
}

bool callsite_find(struct callsite *c, struct sourcetext *sources, const struct tfmt_code *code, int32_t position,
		   bool makes)
{
	char text[TEXT_MAX], *call;
	struct pylines_span span;

	*c = (struct callsite){ 0 };
	if (!call_text(text, sources, code, position, &span))
		return false;
	c->is_super = !strncmp(text, "super(", 6) || strstr(text, ".__init__(");
	if (makes)
		return c->is_super || read_target(c, sources, code, span.line, span.column);
	call = called(text);
	if (!call)
		return false;
	if (!strncmp(call, "self.", 5))
		return read_member(c, call + 5);
	return read_variable(c, sources, code, span.line, call);
}
