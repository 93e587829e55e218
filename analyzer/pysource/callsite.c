/* SPDX-License-Identifier: MIT */
/* Reading a call's expression, and the loops and assignments that its names come from. No parser: a few forms. */
#include "analyzer/pysource/callsite.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/pysource/callbranch.h"
#include "analyzer/pysource/callloop.h"
#include "analyzer/pysource/calltext.h"
#include "analyzer/pysource/memberclass.h"
#include "analyzer/stacks/pylines.h"

#define CALLTEXT_MAX 1024
#define STATEMENT_LINES 12 /* a statement that makes a module is looked for so far above the call */
#define COMPREHENSION_LINES 3 /* what a comprehension goes through is looked for so far below the call */

/* Where a call stands. */
struct call_line {
	struct sourcetext *sources;
	const struct tfmt_code *code;
	uint32_t line;
	char owner[CALLSITE_NAME_MAX]; /* what the method calls its own object */
};

/* The call, from its first character on, its lines joined; false where the table or the file does not have it. */
static bool call_text(char buf[static CALLTEXT_MAX], struct sourcetext *s, const struct tfmt_code *code,
		      int32_t position, struct pylines_span *out)
{
	struct pylines_span span;
	char next[CALLTEXT_MAX];
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
	len = len - span.column < CALLTEXT_MAX ? len - span.column : CALLTEXT_MAX - 1;
	memcpy(buf, text + span.column, len);
	buf[len] = 0;
	for (uint32_t i = span.line + 1; i <= span.end_line && calltext_line(next, s, code, i) &&
					 len + strlen(next) + 2 < CALLTEXT_MAX; i++)
		len += (size_t)snprintf(buf + len, CALLTEXT_MAX - len, "%s%s", buf[len - 1] == '(' ? "" : " ", next);
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

/* ".attn[i].proj", behind a member: which of a further list's it is, is known of a number only. */
static void add_member(struct callsite *c, const char *text)
{
	size_t len = strlen(c->behind), end;

	for (; *text && len + 3 < sizeof(c->behind); text += end) {
		const char *part = text + strspn(text, ".[\"'");
		bool is_index = *text == '[' && part == text + 1;

		end = is_index ? strcspn(part, "]") : strcspn(part, ".[\"'");
		if (end && is_index && strspn(part, "0123456789") < end)
			len += (size_t)snprintf(c->behind + len, sizeof(c->behind) - len, "%s*", len ? "." : "");
		else if (end)
			len += (size_t)snprintf(c->behind + len, sizeof(c->behind) - len, "%s%.*s",
						len ? "." : "", (int)end, part);
		end += (size_t)(part - text);
		end += strspn(text + end, "]\"'");
	}
}

/* "layers[i].attn" behind "self.": a name, an index perhaps, and what follows. A number is a part of the name. */
static bool read_member(struct callsite *c, const struct call_line *at, const char *text)
{
	size_t len = 0, end, from;
	char index[CALLSITE_NAME_MAX];
	bool is_key;

	while (calltext_is_name(text[len]) || text[len] == '.')
		len++;
	calltext_copy(c->name, text, len);
	if (text[len] != '[')
		return len > 0;
	end = len + strcspn(text + len, "]");
	is_key = text[len + 1] == '"' || text[len + 1] == '\'';
	from = len + 1 + is_key;
	calltext_copy(index, text + from, end > from + is_key ? end - from - is_key : 0);
	if (is_key || strspn(index, "0123456789") == strlen(index))
		calltext_copy(c->behind, index, strlen(index));
	else
		callloop_index(c, at->sources, at->code, at->line, index);
	if (text[end] == ']' && text[end + 1])
		add_member(c, text + end + 1);
	return len > 0;
}

/* "attn", of a module whose name is found by now, called behind it. */
static void add_behind(struct callsite *c, const char *behind)
{
	size_t len = strlen(c->behind);

	if (*behind)
		snprintf(c->behind + len, sizeof(c->behind) - len, "%s%s", len ? "." : "", behind);
}

/* The line gives the variable a member of the owner's, `x = self.layers`: the text behind "self."; or NULL. */
static const char *assigned(const struct call_line *at, const char *line, const char *name, size_t len)
{
	const char *value = calltext_begins_with(line, name, len) ? memberclass_given(line + len, strlen(line + len)) : NULL;

	return value ? calltext_member_of(value, at->owner) : NULL;
}

static bool read_parameter(struct callsite *c, const struct call_line *at, const char *name, size_t len)
{
	int nr = calltext_parameter(at->sources, at->code, name, len);
	char outer_name[CALLTEXT_MAX];
	struct tfmt_code outer;
	const char *maker;
	size_t maker_len;

	if (nr < 0 && calltext_enclosing(&outer, outer_name, at->sources, at->code)) {
		nr = calltext_parameter(at->sources, &outer, name, len);
		maker = calltext_function(&outer, &maker_len);
		calltext_copy(c->maker, maker, maker_len);
	}
	if (nr < 0)
		return false;
	c->parameter = nr + 1;
	calltext_copy(c->parameter_name, name, len);
	return true;
}

/* A loop goes through a local variable: a list that was given to it above the line, or to the function. */
static void read_local_list(struct callsite *c, const struct call_line *at, uint32_t line, uint32_t first)
{
	size_t len = strlen(c->name);
	char above[CALLTEXT_MAX];

	for (uint32_t i = line; i >= first && i; i--) {
		const char *member = calltext_line(above, at->sources, at->code, i)
					     ? assigned(at, above, c->name, len)
					     : NULL;

		if (member &&
		    !member[strspn(member,
				   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")]) {
			calltext_copy(c->name, member, strlen(member));
			c->is_variable = false;
			return;
		}
	}
	read_parameter(c, at, c->name, len);
}

/* A loop of this line, or a comprehension on the next ones, binds the variable. */
static bool read_loop(struct callsite *c, const struct call_line *at, uint32_t line, uint32_t first,
		      const char *name, size_t len)
{
	char text[CALLTEXT_MAX];
	bool found = calltext_line(text, at->sources, at->code, line) &&
		     callloop_read(c, text, name, len, line == at->line, at->owner);

	for (uint32_t i = line + 1; !found && line == at->line && i <= line + COMPREHENSION_LINES; i++) {
		bool is_loop = calltext_line(text, at->sources, at->code, i) && !strncmp(text, "for ", 4);

		if (is_loop && strchr(text, ':'))
			break;
		found = is_loop && callloop_read(c, text, name, len, false, at->owner);
	}
	if (found && c->is_variable)
		read_local_list(c, at, line, first);
	if (found)
		c->loop_line = line;
	return found;
}

/*
 * Where the local variable that is called comes from: a loop around the call over a member, an assignment of
 * one, or the function's caller. What stands outside of functions has no owner, and above it those of others.
 */
static bool read_variable(struct callsite *c, const struct call_line *at, const char *text)
{
	size_t len = 0, outer = calltext_indentation(at->sources, at->code, at->line), indent;
	char above[CALLTEXT_MAX], behind[CALLSITE_NAME_MAX] = "";
	uint32_t first = calltext_first_line(at->sources, at->code);

	while (calltext_is_name(text[len]))
		len++;
	if (!len || calltext_begins_with(text, "getattr", strlen("getattr")))
		return false; /* by a name that is made up */
	if (text[len] == '.')
		calltext_copy(behind, text + len + 1, strcspn(text + len + 1, "(["));
	for (uint32_t i = at->line; i >= first && i && strcmp(at->code->name, "<module>"); i--) {
		const char *member = NULL;

		if (!calltext_line(above, at->sources, at->code, i))
			continue;
		indent = calltext_indentation(at->sources, at->code, i);
		if (i < at->line)
			member = assigned(at, above, text, len);
		if (member ? read_member(c, at, member) :
			     (i == at->line || indent < outer) && read_loop(c, at, i, first, text, len)) {
			add_behind(c, behind);
			return true;
		}
		if (member)
			return false;
		outer = indent < outer ? indent : outer;
	}
	calltext_copy(c->name, text, strcspn(text, "([ ,)"));
	c->is_variable = true;
	if (strcmp(at->code->name, "<module>") && read_parameter(c, at, text, len))
		calltext_copy(c->behind, behind, strlen(behind));
	return true;
}

/* A module's `__call__` and `forward` are the module. */
static void drop_method(char *text)
{
	static const char *const methods[] = { ".__call__", ".forward" };
	size_t len = strlen(text);

	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (len > strlen(methods[i]) && !strcmp(text + len - strlen(methods[i]), methods[i]))
			text[len - strlen(methods[i])] = 0;
}

/* `checkpoint(part, h)`, `torch.func.functional_call(part, weights, h)` and the like call what they are given. */
static char *called(char *text)
{
	char *open = arguments_of(text);

	if (!open)
		return NULL;
	*open = 0;
	if (strstr(text, "checkpoint") || strstr(text, "functional_call")) {
		text = open + 1;
		text += strspn(text, " ");
		text[strcspn(text, ",)")] = 0;
	}
	drop_method(text);
	return text;
}

/* In "self.gate, self.up = Linear(...), Linear(...)": the name for the expression at this column of the text. */
static const char *nth_target(const char *text, size_t column)
{
	const char *value = memberclass_assigned(text, strlen(text)), *name = text;
	int nr = 0;

	if (!value || (size_t)(value - text) > column)
		return NULL;
	for (const char *p = value; p < text + column; p++)
		nr += *p == ',' && !calltext_open_brackets(value, (size_t)(p - value));
	for (; nr && name; nr--) {
		name = strchr(name, ',');
		name = name && name < value ? name + 1 + strspn(name + 1, " ") : NULL;
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
	member = calltext_member_of(name, owner);
	self = member;
	name = self ? member : name;
	for (end = name; calltext_is_name(*end);)
		end++;
	appends = self && (!strncmp(end, ".append(", 8) || *end == '[');
	if (end == name || (!appends && strncmp(end, " =", 2) && *end != ',' && *end != '=' && strncmp(end, ": ", 2)))
		return false;
	calltext_copy(c->name, name, (size_t)(end - name));
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
	char text[CALLTEXT_MAX];
	size_t len, blanks, at;
	int open = 1;

	if (!sourcetext_line(s, code->file, line, &len) || !calltext_line(text, s, code, line))
		return false;
	blanks = len > strlen(text) ? len - strlen(text) : 0;
	for (uint32_t i = line; i && i + STATEMENT_LINES > line && calltext_line(text, s, code, i); i--) {
		if (i < line)
			open += calltext_open_brackets(text, strlen(text));
		at = i == line && column > blanks ? column - blanks : strlen(text);
		if (open > (i < line) && read_statement(c, code, text, at, owner))
			return true;
		if (i == line)
			open = 1;
	}
	return false;
}

/* The expression of a module: a member of the owner's, or a variable. */
static bool read_module(struct callsite *c, const struct call_line *at, const char *text)
{
	const char *member = calltext_member_of(text, at->owner);

	return member ? read_member(c, at, member) : read_variable(c, at, text);
}

/* Of a member of what a loop goes through: do the conditions in the loop pass some over? */
static void read_branch(struct callsite *c, const struct call_line *at, const char *called_text)
{
	const char *member = calltext_member_of(called_text, at->owner);
	const char *text = member ? member : called_text;
	char word[CALLSITE_NAME_MAX];
	size_t len = 0;

	while (calltext_is_name(text[len]))
		len++;
	calltext_copy(word, text, len);
	if (c->indexed && c->loop_line && len)
		callbranch_read(c, at->sources, at->code, at->line, word);
}

bool callsite_find(struct callsite *c, struct sourcetext *sources, const struct tfmt_code *code, int32_t position,
		   bool makes)
{
	struct call_line at = { .sources = sources, .code = code };
	char text[CALLTEXT_MAX], *call;
	struct pylines_span span;

	*c = (struct callsite){ 0 };
	if (!call_text(text, sources, code, position, &span))
		return false;
	at.line = span.line;
	c->is_super = !strncmp(text, "super(", 6) || strstr(text, ".__init__(");
	calltext_owner(at.owner, sources, code);
	if (makes)
		return c->is_super || read_target(c, sources, code, span.line, span.column, at.owner);
	call = called(text);
	if (!call || !read_module(c, &at, call))
		return false;
	read_branch(c, &at, call);
	return true;
}

/* The argument for the parameter: by its name, or by its number, behind the function where another calls that. */
static const char *argument_of(char *text, const struct tfmt_code *callee, const struct callsite *of, size_t *len)
{
	const char *made = *of->maker ? calltext_find_word(text, of->maker) : NULL;
	char *arguments = made ? text + (made - text) + strlen(of->maker) : arguments_of(text);
	size_t function_len, name_len = strlen(of->parameter_name);
	const char *function = calltext_function(callee, &function_len), *argument;
	uint32_t from = 0;

	if (!arguments || *arguments != '(' || (*of->maker && !made))
		return NULL;
	*arguments++ = 0;
	for (uint32_t i = 0; (argument = calltext_listed(arguments, i, len)) != NULL; i++) {
		if (calltext_begins_with(argument, of->parameter_name, name_len) && argument[name_len] == '=' &&
		    argument[name_len + 1] != '=') {
			*len -= name_len + 1;
			return argument + name_len + 1;
		}
		if (*len >= function_len && !strncmp(argument + *len - function_len, function, function_len))
			from = i + 1;
	}
	argument = calltext_listed(arguments, from + (uint32_t)of->parameter - 1, len);
	return argument && *argument != '*' ? argument : NULL;
}

bool callsite_find_argument(struct callsite *c, struct sourcetext *sources, const struct tfmt_code *code,
			    int32_t position, const struct tfmt_code *callee, const struct callsite *of)
{
	struct call_line at = { .sources = sources, .code = code };
	char text[CALLTEXT_MAX];
	struct pylines_span span;
	const char *argument;
	size_t len;

	*c = (struct callsite){ 0 };
	if (!call_text(text, sources, code, position, &span))
		return false;
	argument = argument_of(text, callee, of, &len);
	if (!argument)
		return false;
	text[argument - text + (ptrdiff_t)len] = 0;
	drop_method(text + (argument - text));
	at.line = span.line;
	calltext_owner(at.owner, sources, code);
	if (!read_module(c, &at, argument))
		return false;
	read_branch(c, &at, argument);
	add_behind(c, of->behind);
	return true;
}
