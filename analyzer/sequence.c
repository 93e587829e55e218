/* SPDX-License-Identifier: MIT */
/* Lists of members in source text. No parser: one form of statement. */
#include "analyzer/sequence.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define STATEMENT_LINES 200 /* of one list */

/* A place in a file, and how many brackets are open there. */
struct cursor {
	struct sourcetext *sources;
	const char *file, *text;
	size_t len, at;
	uint32_t line;
	int open;
};

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The next character, '\n' at the end of a line; 0 where the file ends. What is behind '#' is passed over. */
static char next(struct cursor *c)
{
	if (c->at < c->len && c->text[c->at] != '#')
		return c->text[c->at++];
	c->text = sourcetext_line(c->sources, c->file, ++c->line, &c->len);
	c->at = 0;
	return c->text ? '\n' : 0;
}

/* Behind the string that this quotation mark begins. */
static void skip_string(struct cursor *c, char quote)
{
	while (c->at < c->len && c->text[c->at] != quote)
		c->at += 1 + (c->text[c->at] == '\\');
	c->at += c->at < c->len;
}

/* "nn.Conv2d" at the beginning of what `text` holds gives "Conv2d". false if it is no call of a name. */
static bool class_of(char out[static 32], const char *text)
{
	size_t len = 0, dot = 0;

	while (is_name(text[len]) || text[len] == '.') {
		dot = text[len] == '.' ? len + 1 : dot;
		len++;
	}
	if (text[len] != '(' || len == dot || len - dot >= 32)
		return false;
	snprintf(out, 32, "%.*s", (int)(len - dot), text + dot);
	return true;
}

/* false if this is no member, but makes several, or is made elsewhere. */
static bool add_member(struct sequence *s, char *text, size_t len)
{
	text[len] = 0;
	if (!len)
		return true; /* behind the last comma */
	return s->nr < SEQUENCE_MAX && class_of(s->class_name[s->nr++], text);
}

/* The arguments from behind the list's own bracket on. */
static bool read_members(struct sequence *s, struct cursor *c)
{
	uint32_t last = c->line + STATEMENT_LINES;
	char text[64], ch;
	size_t len = 0;

	s->nr = 0;
	for (c->open = 1; c->open && (ch = next(c)) && c->line < last;) {
		if (ch == '"' || ch == '\'')
			skip_string(c, ch);
		c->open += (ch == '(' || ch == '[' || ch == '{') - (ch == ')' || ch == ']' || ch == '}');
		if (c->open == 1 && ch == ',') {
			if (!add_member(s, text, len))
				return false;
			len = 0;
		} else if (c->open && !isspace((unsigned char)ch) && len < sizeof(text) - 1) {
			text[len++] = ch;
		}
	}
	return !c->open && add_member(s, text, len) && s->nr;
}

#define NOT_HERE SIZE_MAX

/* Behind "nn.NAME(", which the text begins with; NULL if it does not. */
static const char *behind_maker(const char *text, size_t len, const char *name)
{
	static const char *const modules[] = { "", "nn.", "torch.nn." };
	size_t name_len = strlen(name);

	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		size_t at = strlen(modules[i]);

		if (len > at + name_len && !memcmp(text, modules[i], at) && !memcmp(text + at, name, name_len) &&
		    text[at + name_len] == '(')
			return text + at + name_len + 1;
	}
	return NULL;
}

/*
 * Where the list begins in "self.body = nn.Sequential(", of which `name` is "body", or that of each of `several`; 0 where
 * the line gives it something else, NOT_HERE where it gives it nothing, or itself again ("body = body.cuda()").
 */
static size_t list_begins(const char *text, size_t len, const char *name, bool several)
{
	size_t name_len = strlen(name);

	for (size_t at = 0; at + name_len + 3 < len; at++) {
		const char *value = text + at + name_len + 3;

		if (memcmp(text + at, name, name_len) || (at && is_name(text[at - 1])) || memcmp(value - 3, " = ", 3))
			continue;
		if (text + len - value > (ptrdiff_t)name_len && !memcmp(value, name, name_len) && !is_name(value[name_len]))
			continue;
		if (several)
			value = behind_maker(value, (size_t)(text + len - value), "ModuleList");
		if (several && value)
			value += value < text + len && *value == '[';
		value = value ? behind_maker(value, (size_t)(text + len - value), "Sequential") : NULL;
		return value ? (size_t)(value - text) : 0;
	}
	return NOT_HERE;
}

/* Is what follows a comprehension's loop? */
static bool is_repeated(struct cursor *c)
{
	uint32_t last = c->line + 1;
	char ch;

	while ((ch = next(c)) && isspace((unsigned char)ch) && c->line <= last)
		;
	return ch == 'f' && c->len - c->at > 2 && !memcmp(c->text + c->at, "or ", 3);
}

bool sequence_find(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line, const char *name,
		   bool several)
{
	for (uint32_t i = line; *name && i; i--) {
		struct cursor c = { .sources = sources, .file = file, .line = i };

		c.text = sourcetext_line(sources, file, i, &c.len);
		if (!c.text)
			return false;
		c.at = list_begins(c.text, c.len, name, several);
		if (c.at != NOT_HERE)
			return c.at && read_members(s, &c) && (!several || is_repeated(&c));
	}
	return false;
}

/* PyTorch's classes of one kind share the forward of a class with a leading underscore. */
static bool may_run(const char *class_name, const char *forward)
{
	size_t len = strcspn(forward, ".");

	if (*forward == '_')
		return len > 1 && !strncmp(class_name, forward + 1, len - 1);
	return !strncmp(class_name, forward, len) && !class_name[len];
}

int32_t sequence_next(const struct sequence *s, int32_t before, const char *forward)
{
	for (int32_t i = before + 1; i < (int32_t)s->nr; i++)
		if (may_run(s->class_name[i], forward))
			return i;
	return -1;
}
