/* SPDX-License-Identifier: MIT */
/* Lists of members in source text. No parser: one form of statement. */
#include "analyzer/pysource/sequence.h"

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

/*
 * Does what this makes (`nn.Conv2d(3,8,3)`) allocate in each call? Activations do, unless they work in place; nn.Dropout
 * does in training alone.
 */
static bool is_always_seen(const char *text)
{
	static const char *const classes[] = {
		"Linear", "Bilinear", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm", "MaxPool",
		"AvgPool", "ReLU", "LeakyReLU", "PReLU", "GELU", "SiLU", "ELU", "Tanh", "Sigmoid", "Mish", "Hardswish",
		"Softplus", "Softmax", "Embedding", "Upsample",
	};

	text += strncmp(text, "torch.", 6) ? 0 : 6;
	for (size_t i = 0; !strncmp(text, "nn.", 3) && i < sizeof(classes) / sizeof(*classes); i++)
		if (!strncmp(text + 3, classes[i], strlen(classes[i])))
			return !strstr(text, "inplace") && !strstr(text, "(True");
	return false;
}

/* false if this is no member, but makes several, or is made elsewhere. */
static bool add_member(struct sequence *s, const struct cursor *c, char *text, size_t len)
{
	char *name = s->class_name[s->nr];

	text[len] = 0;
	if (!len)
		return true; /* behind the last comma */
	if (s->nr == SEQUENCE_MAX || !memberclass_of(name, text))
		return false;
	s->nr++;
	s->is_seen &= is_always_seen(text);
	if (!strcmp(name, "OrderedDict"))
		return false;
	if (strncmp(text, "nn.", 3) && strncmp(text, "torch.nn.", 9))
		memberclass_find(name, c->sources, c->file);
	return true;
}

/* Does a comprehension's "for" stand here, behind a blank? */
static bool is_for(const struct cursor *c)
{
	return c->at > 1 && c->at + 3 < c->len && isspace((unsigned char)c->text[c->at - 2]) &&
	       !memcmp(c->text + c->at - 1, "for ", 4);
}

/* The arguments from behind the list's own bracket on. */
static bool read_members(struct sequence *s, struct cursor *c)
{
	uint32_t last = c->line + STATEMENT_LINES;
	char text[64], ch;
	size_t len = 0;

	s->nr = 0;
	s->is_alike = false;
	s->is_seen = true;
	for (c->open = 1; c->open && (ch = next(c)) && c->line < last;) {
		if (ch == '"' || ch == '\'')
			skip_string(c, ch);
		if (c->open == 1 && is_for(c))
			return false;
		c->open += (ch == '(' || ch == '[' || ch == '{') - (ch == ')' || ch == ']' || ch == '}');
		if (c->open == 1 && ch == ',') {
			if (!add_member(s, c, text, len))
				return false;
			len = 0;
		} else if (c->open && !isspace((unsigned char)ch) && len < sizeof(text) - 1) {
			text[len++] = ch;
		}
	}
	return !c->open && add_member(s, c, text, len) && s->nr;
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

/* The members of what this function of the file returns; of a class, of what its __init__ gives nn.Sequential's. */
static bool read_made(struct sequence *s, const struct cursor *from, const char *name)
{
	struct cursor c = { .sources = from->sources, .file = from->file };
	bool is_class = false, is_here = false;

	for (c.line = 1; (c.text = sourcetext_line(c.sources, c.file, c.line, &c.len)); c.line++) {
		const char *text = c.text, *end = c.text + c.len, *begin = NULL;

		while (text < end && isspace((unsigned char)*text))
			text++;
		if (memberclass_begins(text, (size_t)(end - text), "def ", name) ||
		    memberclass_begins(text, (size_t)(end - text), "class ", name)) {
			is_here = true;
			is_class = *text == 'c';
			continue;
		}
		begin = is_here ? NULL : memberclass_lambda(c.text, c.len, name);
		if (!is_here && !begin)
			continue;
		if (is_class && memberclass_begins(text, (size_t)(end - text), "super().__init__", ""))
			begin = text + strlen("super().__init__(");
		if (!is_class && memberclass_begins(text, (size_t)(end - text), "return", ""))
			begin = memberclass_behind(text + strlen("return "),
						   (size_t)(end - text) - strlen("return "), "Sequential");
		c.at = begin ? (size_t)(begin - c.text) : 0;
		if (begin || memberclass_begins(text, (size_t)(end - text), "return", "") ||
		    memberclass_begins(text, (size_t)(end - text), "class", ""))
			return begin && read_members(s, &c);
	}
	return false;
}

/* One of several, and what it has. The cursor is behind it then. */
typedef bool (*read_one_fn)(struct sequence *s, struct cursor *c, char first);

/* The name that is called. false: none is. */
static bool read_name(char name[static 64], struct cursor *c, char first)
{
	size_t len = 0;
	char ch = first;

	for (; ch && (memberclass_is_word(ch) || ch == '.') && len < 63; ch = next(c))
		name[len++] = ch;
	name[len] = 0;
	return ch == '(';
}

/* An nn.Sequential, or a call of what makes one. */
static bool read_sequence(struct sequence *s, struct cursor *c, char first)
{
	const char *dot;
	char name[64];

	if (!read_name(name, c, first))
		return false;
	dot = strrchr(name, '.');
	if (!strcmp(dot ? dot + 1 : name, "Sequential"))
		return read_members(s, c);
	return skip_call(c) && read_made(s, c, dot ? dot + 1 : name);
}

/* Any module: it stands for itself. */
static bool read_module(struct sequence *s, struct cursor *c, char first)
{
	char name[66];

	if (!read_name(name, c, first))
		return false;
	s->nr = 0;
	strcat(name, "(");
	return add_member(s, c, name, strlen(name)) && skip_call(c);
}

static bool same_members(const struct sequence *a, const struct sequence *b)
{
	for (uint32_t i = 0; i < a->nr && i < b->nr; i++)
		if (strcmp(a->class_name[i], b->class_name[i]))
			return false;
	return a->nr == b->nr;
}

/*
 * All that this list, from behind its bracket on, has are alike: listed one by one, or made in a comprehension,
 * which may be unpacked into it.
 */
static bool read_alike(struct sequence *s, struct cursor *c, read_one_fn read_one)
{
	struct sequence one = { 0 };
	char ch = next_visible(c);
	bool unpacks;

	if (ch == '[')
		ch = next_visible(c);
	for (s->nr = 0; ch && ch != ')' && ch != ']'; ch = next_visible(c)) {
		unpacks = ch == '*';
		if (unpacks && ((ch = next_visible(c)) == '(' || ch == '['))
			ch = next_visible(c);
		if (!read_one(&one, c, ch) || (s->nr && !same_members(s, &one)))
			return false;
		*s = one;
		ch = next_visible(c);
		if (unpacks && ch != ']' && ch != ')' && (ch != 'f' || !skip_call(c)))
			return false;
		if (unpacks)
			ch = next_visible(c);
		if (ch != ',')
			return ch == ')' || ch == ']' || ch == 'f'; /* "for" */
	}
	return s->nr > 0;
}

/* All that is appended to the list below this line are alike. */
static bool read_appended(struct sequence *s, struct cursor *c, const char *name, read_one_fn read_one)
{
	uint32_t last = c->line + STATEMENT_LINES;
	struct sequence one = { 0 };
	char append[64];
	size_t len = (size_t)snprintf(append, sizeof(append), "%s.append(", name);

	s->nr = 0;
	while (len < sizeof(append) && ++c->line < last &&
	       (c->text = sourcetext_line(c->sources, c->file, c->line, &c->len))) {
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

/* To what `name` is given in the nearest statement above the line. */
static bool find_value(struct cursor *c, struct sourcetext *sources, const char *file, uint32_t line, const char *name)
{
	*c = (struct cursor){ .sources = sources, .file = file, .line = line };
	for (; *name && c->line; c->line--) {
		c->text = sourcetext_line(sources, file, c->line, &c->len);
		if (!c->text)
			return false;
		c->at = memberclass_value(c->text, c->len, name);
		if (c->at != MEMBERCLASS_NOWHERE)
			return true;
	}
	return false;
}

/* Into the brackets of "nn.MAKER(", if the cursor is before that. */
static bool enter_maker(struct cursor *c, const char *maker)
{
	const char *begin = memberclass_behind(c->text + c->at, c->len - c->at, maker);

	c->at = begin ? (size_t)(begin - c->text) : c->at;
	return begin;
}

static bool read_list(struct sequence *s, struct cursor *c, const char *name, read_one_fn read_one)
{
	return c->at < c->len && c->text[c->at] == ')' ? read_appended(s, c, name, read_one)
						       : read_alike(s, c, read_one);
}

/* Where `name` stands as a variable in the line, which is none of a comment; NULL: nowhere. */
static const char *find_variable(const struct cursor *c, const char *name)
{
	size_t len = strlen(name), end = 0;

	while (end < c->len && c->text[end] != '#')
		end++;
	for (size_t at = 0; at + len < end; at++)
		if (!memcmp(c->text + at, name, len) && !memberclass_is_word(c->text[at + len]) &&
		    !(at && (memberclass_is_word(c->text[at - 1]) || c->text[at - 1] == '.')))
			return c->text + at;
	return NULL;
}

/* Into the brackets of `name.append(`, `name.extend([`, `name += [`, which the text begins with. */
static bool enter_addition(struct cursor *c, const char *text, const char *name)
{
	static const char *const forms[] = { ".append(", ".extend([", " += [", "+=[" };

	text += strlen(name);
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		c->at = (size_t)(text - c->text) + strlen(forms[i]);
		if (c->at <= c->len && !memcmp(text, forms[i], strlen(forms[i])))
			return true;
	}
	return false;
}

/* The further members behind the cursor, of which each must be seen. One next to its like might be taken for that. */
static bool read_seen(struct cursor *c, char before[static MEMBERCLASS_MAX])
{
	struct sequence more = { 0 };
	struct cursor empty = *c;

	if (next_visible(&empty) == ']')
		return true;
	if (!read_members(&more, c))
		return false;
	for (uint32_t i = 0; i < more.nr && more.is_seen; i++) {
		if (!strcmp(before, more.class_name[i]))
			return false;
		memcpy(before, more.class_name[i], MEMBERCLASS_MAX);
	}
	return more.is_seen;
}

/* `*layers)` of a list that was made above, line by line, of members that are all seen. */
static bool read_unpacked(struct sequence *s, struct cursor *c)
{
	char name[64], before[MEMBERCLASS_MAX] = "", ch = next_visible(c);
	uint32_t last = c->line;
	struct cursor list;
	size_t len = 0;

	while (ch == '*' && memberclass_is_word(c->at < c->len ? c->text[c->at] : ' ') && len < sizeof(name) - 1)
		name[len++] = c->text[c->at++];
	name[len] = 0;
	if (!len || next_visible(c) != ')' || !find_value(&list, c->sources, c->file, last - 1, name) ||
	    next(&list) != '[' || !read_seen(&list, before))
		return false;
	while (++list.line < last && (list.text = sourcetext_line(list.sources, list.file, list.line, &list.len))) {
		const char *found = find_variable(&list, name);

		if (found && !(enter_addition(&list, found, name) && read_seen(&list, before)))
			return false;
	}
	*s = (struct sequence){ .is_seen = *before };
	return *before;
}

/* The members of an nn.Sequential, from behind its bracket on. */
static bool read_own(struct sequence *s, struct cursor *c)
{
	struct cursor listed = *c, unpacked = *c;

	if (read_members(s, &listed))
		return true;
	s->is_alike = read_alike(s, c, read_module);
	return s->is_alike || read_unpacked(s, &unpacked);
}

bool sequence_find(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line, const char *name,
		   bool several)
{
	struct cursor c;

	if (!find_value(&c, sources, file, line, name) || !enter_maker(&c, several ? "ModuleList" : "Sequential"))
		return false;
	return several ? read_list(s, &c, name, read_sequence) : read_own(s, &c);
}

bool sequence_find_list(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line,
			const char *name)
{
	struct cursor c, listed;

	if (!find_value(&c, sources, file, line, name))
		return false;
	if (enter_maker(&c, "Sequential"))
		return read_own(s, &c);
	if (!enter_maker(&c, "ModuleList"))
		return false;
	listed = c;
	if (next_visible(&listed) == '[' && read_members(s, &listed) && next_visible(&listed) == ')')
		return true;
	s->is_alike = read_list(s, &c, name, read_module);
	if (s->is_alike || !s->nr)
		return s->is_alike;
	s->nr = 1; /* of several kinds, in an order that is not known */
	*s->class_name[0] = 0;
	return true;
}

/* "Conv2d" of "Conv2d.forward", "Stage" of "Swin.Stage.forward". */
static const char *class_in(const char *forward, size_t *len)
{
	const char *end = strrchr(forward, '.'), *begin = end ? end : forward;

	while (begin > forward && begin[-1] != '.')
		begin--;
	*len = end ? (size_t)(end - begin) : 0;
	return begin;
}

/* PyTorch's classes of one kind share the forward of a class with a leading underscore. */
static bool may_run(const char *class_name, const char *forward)
{
	size_t len;
	const char *name = class_in(forward, &len);

	if (len > 1 && *name == '_' && !strncmp(class_name, name + 1, len - 1))
		return true;
	return !strncmp(class_name, name, len) && !class_name[len];
}

int32_t sequence_next(const struct sequence *s, int32_t before, const char *forward)
{
	if (s->is_alike)
		return may_run(s->class_name[0], forward) ? before + 1 : SEQUENCE_UNTOLD;
	if (s->is_seen && !s->nr)
		return before + 1;
	for (int32_t i = before + 1; i < (int32_t)s->nr; i++) {
		if (!*s->class_name[i])
			return SEQUENCE_UNTOLD;
		if (may_run(s->class_name[i], forward))
			return i;
	}
	return SEQUENCE_END;
}
