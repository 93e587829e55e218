/* SPDX-License-Identifier: MIT */
/* Reading a call's expression, and the loops and assignments that its names come from. No parser: a few forms. */
#include "analyzer/callsite.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/pylines.h"

#define TEXT_MAX 1024
#define STATEMENT_LINES 12 /* a statement that makes a module is looked for so far above the call */
#define DECORATOR_LINES 8  /* a method's own line is looked for so far below its first decorator, */
#define METHOD_LINES 300   /* ... and so far above that */

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

/* `text` begins with this name as a whole word. */
static bool begins_with(const char *text, const char *name, size_t len)
{
	return !strncmp(text, name, len) && !is_name(text[len]);
}

/* Whole words only; NULL if there is none. */
static const char *find_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
		if ((p == text || !is_name(p[-1])) && !is_name(p[len]))
			return p;
	return NULL;
}

/* The line's own text behind "def NAME("; NULL if it is none. */
static const char *defines(const char *line, const char *name, size_t len)
{
	const char *p = line + (strncmp(line, "async ", 6) ? 0 : 6);

	if (strncmp(p, "def ", 4) || !begins_with(p + 4, name, len))
		return NULL;
	p = strchr(p, '(');
	return p ? p + 1 : NULL;
}

/*
 * Where the parameters of the method of this name begin, in a line that was read into `line`; NULL if they are not found.
 * The code begins with its decorators; a comprehension's code lies further down in the method.
 */
static const char *parameters_of(char line[static TEXT_MAX], struct sourcetext *s, const struct tfmt_code *code,
				 const char *name, size_t len)
{
	bool is_within = code->name[strlen(code->name) - 1] == '>';

	for (uint32_t nr = 0; nr < (is_within ? METHOD_LINES : DECORATOR_LINES); nr++) {
		uint32_t i = is_within ? code->first_line - nr : code->first_line + nr;
		const char *parameters = line_of(line, s, code, i) ? defines(line, name, len) : NULL;

		if (parameters)
			return *parameters ? parameters : line_of(line, s, code, i + 1) ? line : NULL;
	}
	return NULL;
}

/* "forward" of "GPT.forward.<locals>.<listcomp>": *len 0 if the code is not a method's. */
static const char *method_name(const char *code_name, size_t *len)
{
	size_t end = strlen(code_name), begin;

	do {
		for (begin = end; begin && code_name[begin - 1] != '.';)
			begin--;
		*len = end - begin;
		end = begin ? begin - 1 : 0;
	} while (end && code_name[begin] == '<');
	if (!end || code_name[begin] == '<' || code_name[end - 1] == '>')
		*len = 0; /* a function outside of a class, or within another function */
	return code_name + begin;
}

/* What a method calls its own object: "self", or what else its first parameter is called. */
static void find_owner(char out[static CALLSITE_NAME_MAX], struct sourcetext *s, const struct tfmt_code *code)
{
	size_t len, nr = 0;
	const char *name = method_name(code->name, &len), *parameters;
	char line[TEXT_MAX];

	strcpy(out, "self");
	parameters = len ? parameters_of(line, s, code, name, len) : NULL;
	while (parameters && is_name(parameters[nr]))
		nr++;
	if (nr && nr < CALLSITE_NAME_MAX)
		snprintf(out, CALLSITE_NAME_MAX, "%.*s", (int)nr, parameters);
}

/* What follows "self." at the beginning of the text; NULL if it does not begin so. */
static const char *member_of(const char *text, const char *owner)
{
	size_t len = strlen(owner);

	return !strncmp(text, owner, len) && text[len] == '.' ? text + len + 1 : NULL;
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

/* "layers[i].attn" behind "self.": a name, an index perhaps, and what follows. A number is a part of the name. */
static bool read_member(struct callsite *c, const char *text)
{
	size_t len = 0, end, from;
	bool is_key;

	while (is_name(text[len]) || text[len] == '.')
		len++;
	copy(c->name, text, len);
	if (text[len] != '[')
		return len > 0;
	end = len + strcspn(text + len, "]");
	is_key = text[len + 1] == '"' || text[len + 1] == '\'';
	from = len + 1 + is_key;
	if (is_key || from + strspn(text + from, "-0123456789") == end)
		snprintf(c->behind, sizeof(c->behind), "%.*s", (int)(end > from + is_key ? end - from - is_key : 0), text + from);
	else
		c->indexed = true;
	if (text[end] == ']' && text[end + 1] == '.') {
		from = strlen(c->behind);
		snprintf(c->behind + from, sizeof(c->behind) - from, "%s%s", from ? "." : "", text + end + 2);
	}
	return len > 0;
}

/* How many blanks a line begins with; SIZE_MAX of one that has nothing else, or cannot be had. */
static size_t indentation(struct sourcetext *s, const struct tfmt_code *code, uint32_t line)
{
	const char *text;
	size_t len, nr = 0;

	text = sourcetext_line(s, code->file, line, &len);
	while (text && nr < len && isspace((unsigned char)text[nr]))
		nr++;
	return text && nr < len ? nr : SIZE_MAX;
}

/*
 * In "for i, (layer, past) in enumerate(zip(self.h, pasts)):", is `name` among what is bound, and as which of its
 * group? Where the text behind " in " begins; NULL if it is not.
 */
static const char *bound_by(const char *loop, const char *name, size_t len, int *nth)
{
	const char *in = strstr(loop, " in ");

	*nth = 0;
	for (const char *p = loop + 4; in && p < in; p++) {
		if (!is_name(p[-1]) && begins_with(p, name, len))
			return in + 4;
		*nth = *p == '(' ? 0 : *nth + (*p == ',');
	}
	return NULL;
}

/* What the n-th variable goes over: of zip(a, b) its n-th argument. Cuts `over` behind it. */
static char *iterated(char *over, int nth)
{
	char *p = strstr(over, "zip(");
	int open = 0;

	if (!p)
		return over;
	over = p += 4;
	for (; *p; p++) {
		if (!open && (*p == ',' || *p == ')')) {
			*p = 0;
			if (!nth--)
				return over;
			over = p + 1;
		} else {
			open += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
		}
	}
	return nth ? NULL : over;
}

/* What a loop that the line begins, or (`within`) a comprehension that it holds, takes the variable from; or NULL. */
static char *loop_over(char *line, const char *name, size_t len, bool within)
{
	const char *over = NULL;
	int nth;

	for (const char *loop = line; loop && !over; loop = within ? strstr(loop + 1, " for ") : NULL) {
		loop += *loop == ' ';
		over = strncmp(loop, "for ", 4) ? NULL : bound_by(loop, name, len, &nth);
	}
	return over ? iterated(line + (over - line), nth) : NULL;
}

/* The variable's value is one of a list that is the owner's, as this loop says. */
static bool read_loop(struct callsite *c, const char *over, const char *behind, const char *owner)
{
	const char *self = find_word(over, owner), *member = self ? member_of(self, owner) : NULL;
	size_t len = 0;

	if (!self)
		return false;
	while (member && is_name(member[len]))
		len++;
	c->indexed = true;
	if (member)
		copy(c->name, member, len);
	copy(c->behind, behind, strlen(behind));
	return true;
}

/*
 * Where the local variable that is called comes from: a loop around the call over a member, or an assignment of one.
 * What stands outside of functions has no owner, and above it those of others.
 */
static bool read_variable(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line,
			  const char *text, const char *owner)
{
	size_t len = 0, outer = indentation(s, code, line), indent;
	char above[TEXT_MAX], behind[CALLSITE_NAME_MAX] = "";
	const char *member;
	char *over;

	while (is_name(text[len]))
		len++;
	if (!len)
		return false;
	if (text[len] == '.')
		copy(behind, text + len + 1, strcspn(text + len + 1, "(["));
	for (uint32_t i = line; strcmp(code->name, "<module>") && i >= code->first_line && line_of(above, s, code, i); i--) {
		indent = indentation(s, code, i);
		member = i < line && begins_with(above, text, len) && !strncmp(above + len, " = ", 3) ?
				 member_of(above + len + 3, owner) : NULL;
		if (member) {
			if (!read_member(c, member))
				return false;
			if (*behind)
				copy(c->behind, behind, strlen(behind));
			return true;
		}
		over = i == line || indent < outer ? loop_over(above, text, len, i == line) : NULL;
		if (over && read_loop(c, over, behind, owner)) {
			c->loop_line = i;
			return true;
		}
		outer = indent < outer ? indent : outer;
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
static bool read_statement(struct callsite *c, const struct tfmt_code *code, const char *text, size_t column,
			   const char *owner)
{
	const char *name = nth_target(text, column), *end, *member;
	bool self, appends;

	name = name ? name : text;
	member = member_of(name, owner);
	self = member;
	name = self ? member : name;
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
			uint32_t column, const char *owner)
{
	char text[TEXT_MAX];
	size_t len, blanks, at;
	int open = 1;

	if (!sourcetext_line(s, code->file, line, &len) || !line_of(text, s, code, line))
		return false;
	blanks = len > strlen(text) ? len - strlen(text) : 0;
	for (uint32_t i = line; i && i + STATEMENT_LINES > line && line_of(text, s, code, i); i--) {
		if (i < line)
			open += open_brackets(text, strlen(text));
		at = i == line && column > blanks ? column - blanks : strlen(text);
		if (open > (i < line) && read_statement(c, code, text, at, owner))
			return true;
		if (i == line)
			open = 1;
	}
	return false;
}

bool callsite_find(struct callsite *c, struct sourcetext *sources, const struct tfmt_code *code, int32_t position,
		   bool makes)
{
	char text[TEXT_MAX], owner[CALLSITE_NAME_MAX], *call;
	struct pylines_span span;
	const char *member;

	*c = (struct callsite){ 0 };
	if (!call_text(text, sources, code, position, &span))
		return false;
	c->is_super = !strncmp(text, "super(", 6) || strstr(text, ".__init__(");
	find_owner(owner, sources, code);
	if (makes)
		return c->is_super || read_target(c, sources, code, span.line, span.column, owner);
	call = called(text);
	if (!call)
		return false;
	member = member_of(call, owner);
	if (member)
		return read_member(c, member);
	return read_variable(c, sources, code, span.line, call, owner);
}
