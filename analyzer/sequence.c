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

/* What the line gives `name`, in "self.body = ...": NOT_HERE where it gives it nothing, or itself ("body = body.cuda()"). */
static size_t value_begins(const char *text, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	for (size_t at = 0; at + name_len + 3 < len; at++) {
		const char *value = text + at + name_len + 3;

		if (memcmp(text + at, name, name_len) || (at && is_name(text[at - 1])) || memcmp(value - 3, " = ", 3))
			continue;
		if (text + len - value > (ptrdiff_t)name_len && !memcmp(value, name, name_len) && !is_name(value[name_len]))
			continue;
		return (size_t)(value - text);
	}
	return NOT_HERE;
}

/* The next character that is not blank. */
static char next_visible(struct cursor *c)
{
	uint32_t last = c->line + STATEMENT_LINES;
	char ch;

	while ((ch = next(c)) && isspace((unsigned char)ch) && c->line <= last)
		;
	return ch;
}

/* Behind the bracket that closes the open one. */
static bool skip_call(struct cursor *c)
{
	uint32_t last = c->line + STATEMENT_LINES;
	char ch;

	for (c->open = 1; c->open && (ch = next(c)) && c->line < last;) {
		if (ch == '"' || ch == '\'')
			skip_string(c, ch);
		c->open += (ch == '(' || ch == '[' || ch == '{') - (ch == ')' || ch == ']' || ch == '}');
	}
	return !c->open;
}

static bool begins_with(const char *text, size_t len, const char *word, const char *name)
{
	size_t word_len = strlen(word), name_len = strlen(name);

	return len > word_len + name_len && !memcmp(text, word, word_len) && !memcmp(text + word_len, name, name_len) &&
	       !is_name(text[word_len + name_len]);
}

/* Behind "nn.Sequential(" in "block = lambda i, o: nn.Sequential(": NULL if the line does not give the name that. */
static const char *behind_lambda(const char *text, size_t len, const char *name)
{
	size_t at = value_begins(text, len, name);

	if (at == NOT_HERE || !begins_with(text + at, len - at, "lambda", ""))
		return NULL;
	for (; at + 2 < len; at++)
		if (!memcmp(text + at, ": ", 2))
			return behind_maker(text + at + 2, len - at - 2, "Sequential");
	return NULL;
}

/* The members of what this function of the file returns; of a class, of what its __init__ gives nn.Sequential's. */
static bool read_made(struct sequence *s, const struct cursor *from, const char *name)
{
	struct cursor c = { .sources = from->sources, .file = from->file };
	bool is_class = false, is_here = false;

	for (c.line = 1; (c.text = sourcetext_line(c.sources, c.file, c.line, &c.len)); c.line++) {
		const char *text = c.text, *end = c.text + c.len, *begin = NULL;

		while (text < end && isspace((unsigned char)*text))
			text++;
		if (begins_with(text, (size_t)(end - text), "def ", name) || begins_with(text, (size_t)(end - text), "class ", name)) {
			is_here = true;
			is_class = *text == 'c';
			continue;
		}
		begin = is_here ? NULL : behind_lambda(c.text, c.len, name);
		if (!is_here && !begin)
			continue;
		if (is_class && begins_with(text, (size_t)(end - text), "super().__init__", ""))
			begin = text + strlen("super().__init__(");
		if (!is_class && begins_with(text, (size_t)(end - text), "return", ""))
			begin = behind_maker(text + strlen("return "), (size_t)(end - text) - strlen("return "), "Sequential");
		c.at = begin ? (size_t)(begin - c.text) : 0;
		if (begin || begins_with(text, (size_t)(end - text), "return", "") || begins_with(text, (size_t)(end - text), "class", ""))
			return begin && read_members(s, &c);
	}
	return false;
}

/* One of several: an nn.Sequential, or a call of what makes one. The cursor is behind it then. */
static bool read_one(struct sequence *s, struct cursor *c, char first)
{
	char name[64] = { first };
	size_t len = 1;
	const char *dot;
	char ch;

	while ((ch = next(c)) && (is_name(ch) || ch == '.') && len < sizeof(name) - 1)
		name[len++] = ch;
	if (ch != '(')
		return false;
	dot = strrchr(name, '.');
	if (!strcmp(dot ? dot + 1 : name, "Sequential"))
		return read_members(s, c);
	return skip_call(c) && read_made(s, c, dot ? dot + 1 : name);
}

static bool same_members(const struct sequence *a, const struct sequence *b)
{
	for (uint32_t i = 0; i < a->nr && i < b->nr; i++)
		if (strcmp(a->class_name[i], b->class_name[i]))
			return false;
	return a->nr == b->nr;
}

/* All that this list, from behind its bracket on, has are alike: listed one by one, or made in a comprehension. */
static bool read_alike(struct sequence *s, struct cursor *c)
{
	struct sequence one = { 0 };
	char ch = next_visible(c);

	if (ch == '[')
		ch = next_visible(c);
	for (s->nr = 0; ch && ch != ')' && ch != ']'; ch = next_visible(c)) {
		if (!read_one(&one, c, ch) || (s->nr && !same_members(s, &one)))
			return false;
		*s = one;
		ch = next_visible(c);
		if (ch != ',')
			return ch == ')' || ch == ']' || ch == 'f'; /* "for" */
	}
	return s->nr > 0;
}

/* All that is appended to the list below this line are alike. */
static bool read_appended(struct sequence *s, struct cursor *c, const char *name)
{
	uint32_t last = c->line + STATEMENT_LINES;
	struct sequence one = { 0 };
	char append[64];
	size_t len = (size_t)snprintf(append, sizeof(append), "%s.append(", name);

	s->nr = 0;
	while (len < sizeof(append) && ++c->line < last && (c->text = sourcetext_line(c->sources, c->file, c->line, &c->len))) {
		for (c->at = 0; c->at + len < c->len && memcmp(c->text + c->at, append, len);)
			c->at++;
		if (c->at + len >= c->len)
			continue;
		c->at += len;
		if (!read_one(&one, c, next_visible(c)) || (s->nr && !same_members(s, &one)))
			return false;
		*s = one;
	}
	return s->nr > 0;
}

bool sequence_find(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line, const char *name,
		   bool several)
{
	for (uint32_t i = line; *name && i; i--) {
		struct cursor c = { .sources = sources, .file = file, .line = i };
		const char *begin;

		c.text = sourcetext_line(sources, file, i, &c.len);
		if (!c.text)
			return false;
		c.at = value_begins(c.text, c.len, name);
		if (c.at == NOT_HERE)
			continue;
		begin = behind_maker(c.text + c.at, c.len - c.at, several ? "ModuleList" : "Sequential");
		c.at = begin ? (size_t)(begin - c.text) : 0;
		if (!begin)
			return false;
		if (!several)
			return read_members(s, &c);
		return c.at < c.len && c.text[c.at] == ')' ? read_appended(s, &c, name) : read_alike(s, &c);
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
