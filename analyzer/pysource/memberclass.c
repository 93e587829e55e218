/* SPDX-License-Identifier: MIT */
/* Classes, functions and assignments in source text. No parser: what lines begin with, and how deep they are. */
#include "analyzer/pysource/memberclass.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool memberclass_is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

bool memberclass_of(char out[static MEMBERCLASS_MAX], const char *text)
{
	size_t len = 0, dot = 0;

	while (memberclass_is_word(text[len]) || text[len] == '.') {
		dot = text[len] == '.' ? len + 1 : dot;
		len++;
	}
	if (text[len] != '(' || len == dot || len - dot >= MEMBERCLASS_MAX)
		return false;
	snprintf(out, MEMBERCLASS_MAX, "%.*s", (int)(len - dot), text + dot);
	return true;
}

bool memberclass_begins(const char *text, size_t len, const char *word, const char *name)
{
	size_t word_len = strlen(word), name_len = strlen(name);

	return len > word_len + name_len && !memcmp(text, word, word_len) && !memcmp(text + word_len, name, name_len) &&
	       !memberclass_is_word(text[word_len + name_len]);
}

static size_t blanks(const char *text, size_t len)
{
	size_t nr = 0;

	while (nr < len && isspace((unsigned char)text[nr]))
		nr++;
	return nr;
}

const char *memberclass_behind(const char *text, size_t len, const char *name)
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

/* Brackets that the character opens, less those that it closes. */
static int opens(char c)
{
	return (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
}

const char *memberclass_given(const char *text, size_t len)
{
	size_t at = blanks(text, len);

	if (at + 1 >= len || text[at] != '=' || text[at + 1] == '=')
		return NULL;
	at++;
	return text + at + blanks(text + at, len - at);
}

const char *memberclass_assigned(const char *text, size_t len)
{
	const char *value;
	int open = 0;

	for (size_t at = 0; at < len; at++) {
		open += opens(text[at]);
		if (open || text[at] != '=' || (at && strchr("=!<>+-*/%&|^@:", text[at - 1])))
			continue;
		value = memberclass_given(text + at, len - at);
		if (value)
			return value;
	}
	return NULL;
}

size_t memberclass_value(const char *text, size_t len, const char *name)
{
	size_t name_len = strlen(name);
	int open = 0;

	for (size_t at = 0; at + name_len < len; at++) {
		const char *value;

		open += opens(text[at]);
		if (open || memcmp(text + at, name, name_len) || (at && memberclass_is_word(text[at - 1])))
			continue;
		value = memberclass_given(text + at + name_len, len - at - name_len);
		if (!value || value == text + len)
			continue;
		if (text + len - value > (ptrdiff_t)name_len && !memcmp(value, name, name_len) &&
		    !memberclass_is_word(value[name_len]))
			continue;
		return (size_t)(value - text);
	}
	return MEMBERCLASS_NOWHERE;
}

const char *memberclass_lambda(const char *text, size_t len, const char *name)
{
	size_t at = memberclass_value(text, len, name);

	if (at == MEMBERCLASS_NOWHERE || !memberclass_begins(text + at, len - at, "lambda", ""))
		return NULL;
	while (at < len && text[at] != ':')
		at++;
	at += at < len;
	at += blanks(text + at, len - at);
	return memberclass_behind(text + at, len - at, "Sequential");
}

/* "Stage" of "S = Swin.Stage": false if the line does not give the name that. */
static bool is_alias(char out[static MEMBERCLASS_MAX], const char *text, size_t len, const char *name)
{
	size_t at = memberclass_value(text, len, name), dot = at, end;

	if (at == MEMBERCLASS_NOWHERE)
		return false;
	for (end = at; end < len && (memberclass_is_word(text[end]) || text[end] == '.'); end++)
		dot = text[end] == '.' ? end + 1 : dot;
	if (end == dot || end - dot >= MEMBERCLASS_MAX || (end < len && text[end] != ';') ||
	    !isupper((unsigned char)text[dot]))
		return false;
	snprintf(out, MEMBERCLASS_MAX, "%.*s", (int)(end - dot), text + dot);
	return true;
}

/* A line of a file. */
struct line {
	struct sourcetext *sources;
	const char *file, *text;
	size_t len;
	uint32_t nr;
};

static bool next_line(struct line *l)
{
	l->text = sourcetext_line(l->sources, l->file, ++l->nr, &l->len);
	return l->text;
}

/* "class NAME(Base):" begins here: the class whose forward it runs, its own or its base's. */
static void class_that_runs(char name[static MEMBERCLASS_MAX], struct line l)
{
	size_t outer = blanks(l.text, l.len), len;
	const char *base = memchr(l.text, '(', l.len);
	char text[64];

	len = base ? (size_t)(l.text + l.len - base - 1) : 0;
	snprintf(text, sizeof(text) - 1, "%.*s", (int)len, base ? base + 1 : "");
	while (next_line(&l)) {
		size_t indent = blanks(l.text, l.len);

		if (indent == l.len)
			continue;
		if (indent <= outer)
			break;
		if (memberclass_begins(l.text + indent, l.len - indent, "def ", "forward"))
			return;
	}
	len = strcspn(text, ",)=");
	text[len] = '(';
	text[len + 1] = 0;
	if (!memberclass_of(name, text))
		*name = 0;
}

/* What the function that begins here returns: "" if that is not one class for all. */
static void class_returned(char name[static MEMBERCLASS_MAX], struct line l)
{
	size_t outer = blanks(l.text, l.len);
	char returned[MEMBERCLASS_MAX], text[64];

	*name = 0;
	while (next_line(&l)) {
		size_t indent = blanks(l.text, l.len), skip = indent + strlen("return ");

		if (indent < l.len && indent <= outer)
			return;
		if (!memberclass_begins(l.text + indent, l.len - indent, "return", ""))
			continue;
		snprintf(text, sizeof(text), "%.*s", skip < l.len ? (int)(l.len - skip) : 0, l.text + skip);
		if (!memberclass_of(returned, text) || (*name && strcmp(name, returned))) {
			*name = 0;
			return;
		}
		memcpy(name, returned, sizeof(returned));
	}
}

void memberclass_find(char name[static MEMBERCLASS_MAX], struct sourcetext *sources, const char *file)
{
	struct line l = { .sources = sources, .file = file };

	while (next_line(&l)) {
		size_t indent = blanks(l.text, l.len);

		if (memberclass_begins(l.text + indent, l.len - indent, "class ", name)) {
			class_that_runs(name, l);
			return;
		}
		if (memberclass_begins(l.text + indent, l.len - indent, "def ", name)) {
			class_returned(name, l);
			return;
		}
		if (memberclass_lambda(l.text, l.len, name)) {
			strcpy(name, "Sequential");
			return;
		}
		if (is_alias(name, l.text, l.len, name))
			return;
	}
	if (!isupper((unsigned char)*name) && *name != '_')
		*name = 0; /* a variable, or a function from elsewhere */
}
