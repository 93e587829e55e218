/* SPDX-License-Identifier: MIT */
/* Conditions by words and indentation. No parser. */
#include "analyzer/pysource/callbranch.h"

#include <string.h>

#include "analyzer/pysource/calltext.h"
#include "analyzer/pysource/memberclass.h"

#define WORDS_MAX 8
#define LOOP_LINES 400 /* of a loop's body */

/* A loop's body, and the names in it that tell one round from another. */
struct body {
	struct sourcetext *sources;
	const struct tfmt_code *code;
	uint32_t loop, call; /* lines */
	const char *word;    /* what the call names */
	char tells[WORDS_MAX][CALLSITE_NAME_MAX];
	uint32_t nr_tells;
};

/* The `if` that begins on this line, with what belongs to it. */
struct chain {
	uint32_t first;
	bool has_else, tells; /* a condition tells one member from another */
	bool all_call, continues; /* each arm calls a member; one goes on to the next round */
	bool is_first_ones; /* it is that of the first members */
	uint32_t nr_arms;
};

static bool begins(const char *text, const char *word)
{
	return calltext_begins_with(text, word, strlen(word));
}

static bool line_of(char text[static CALLTEXT_MAX], const struct body *b, uint32_t line)
{
	return calltext_line(text, b->sources, b->code, line) && *text && *text != '#';
}

static size_t indentation_of(const struct body *b, uint32_t line)
{
	return calltext_indentation(b->sources, b->code, line);
}

static bool does_tell(const struct body *b, const char *text)
{
	for (uint32_t i = 0; i < b->nr_tells; i++)
		if (calltext_find_word(text, b->tells[i]))
			return true;
	return false;
}

/* The names before `end`: "i, (layer, past)". */
static void add_names(struct body *b, const char *text, const char *end)
{
	size_t len;

	while ((text += strspn(text, " ,()")) < end && b->nr_tells < WORDS_MAX) {
		for (len = 0; calltext_is_name(text[len]);)
			len++;
		if (len && text[len] != '.' && text[len] != '[')
			calltext_copy(b->tells[b->nr_tells++], text, len);
		text += strcspn(text, ",");
	}
}

/* The loop's variables, and what is computed from them before the call. */
static void find_tells(struct body *b)
{
	char text[CALLTEXT_MAX], *from, *bracket;
	const char *end;

	if (!line_of(text, b, b->loop))
		return;
	from = begins(text, "for") ? text : strstr(text, " for ");
	end = from ? strstr(from, " in ") : NULL;
	if (end)
		add_names(b, from + strlen("for ") + (*from == ' '), end);
	for (uint32_t i = b->loop + 1; i < b->call; i++) {
		if (!line_of(text, b, i) || !(end = memberclass_assigned(text, strlen(text))))
			continue;
		bracket = strpbrk(text, "([{");
		if ((!bracket || bracket > end) && does_tell(b, end))
			add_names(b, text, end);
	}
}

static bool is_arm(const char *text)
{
	return begins(text, "if") || begins(text, "elif") || begins(text, "else");
}

/* "if i < n - 1:": it is the last that are passed over, and the others keep their numbers. */
static bool is_first_ones(const struct body *b, const char *text)
{
	size_t len = b->nr_tells ? strlen(b->tells[0]) : 0;

	return len && begins(text, "if") && text[2] == ' ' && calltext_begins_with(text + 3, b->tells[0], len) &&
	       !strncmp(text + 3 + len, " <", 2) && !strstr(text, " and ") && !strstr(text, " or ");
}

/* Does a line from here on, as deep as that or deeper, call a member? */
static bool calls_from(const struct body *b, uint32_t first, size_t indent)
{
	char text[CALLTEXT_MAX];

	for (uint32_t i = first; i < first + LOOP_LINES; i++) {
		if (!line_of(text, b, i))
			continue;
		if (indentation_of(b, i) < indent)
			return false;
		if (calltext_find_word(text, b->word))
			return true;
	}
	return false;
}

/* One arm's line, of which the condition ends in a colon: does it, or what is below it, name the member? */
static bool arm_calls(const struct body *b, uint32_t line, const char *text, size_t indent)
{
	const char *colon = strrchr(text, ':');

	return (colon && calltext_find_word(colon, b->word)) || calls_from(b, line + 1, indent + 1);
}

/* The chain that the line, as deep as this, is an arm of. */
static struct chain chain_at(const struct body *b, uint32_t line, size_t indent)
{
	struct chain c = { .first = line, .all_call = true };
	char text[CALLTEXT_MAX];
	uint32_t i;

	for (; c.first > b->loop; c.first--)
		if (line_of(text, b, c.first) && indentation_of(b, c.first) == indent && begins(text, "if"))
			break;
	for (i = c.first; i < c.first + LOOP_LINES; i++) {
		size_t depth = indentation_of(b, i);

		if (!line_of(text, b, i))
			continue;
		c.continues |= depth > indent && begins(text, "continue");
		if (depth > indent)
			continue;
		if (depth < indent || !is_arm(text) || (i > c.first && begins(text, "if")))
			break;
		c.has_else |= begins(text, "else");
		c.continues |= strstr(text, ": continue") != NULL;
		c.tells |= does_tell(b, text);
		c.is_first_ones |= is_first_ones(b, text);
		c.nr_arms++;
		c.all_call &= arm_calls(b, i, text, indent);
	}
	if (!c.has_else && c.continues && calls_from(b, i, indent))
		c.has_else = true; /* the rest of the round */
	return c;
}

static void add_chain(struct callsite *s, const struct chain *c)
{
	if (c->has_else && c->all_call) {
		s->branch = c->first;
		return;
	}
	s->may_skip = true;
	s->skips |= c->tells && !(c->is_first_ones && c->nr_arms == 1 && !c->continues);
}

/* The loop's own `continue` on this line above the call: of which chain? */
static void add_continue(struct callsite *s, const struct body *b, uint32_t line, const char *text)
{
	size_t outer = begins(text, "continue") ? indentation_of(b, line) : SIZE_MAX, indent;
	uint32_t arm = 0;
	size_t arm_indent = 0;
	char above[CALLTEXT_MAX];

	for (uint32_t i = line; i > b->loop; i--) {
		indent = indentation_of(b, i);
		if (!line_of(above, b, i) || indent >= outer)
			continue;
		outer = indent;
		if (begins(above, "for") || begins(above, "while"))
			return; /* of another loop */
		if (is_arm(above)) {
			arm = i; /* the outermost */
			arm_indent = indent;
		}
	}
	if (arm) {
		struct chain c = chain_at(b, arm, arm_indent);

		add_chain(s, &c);
	}
}

/* `x = layer(x) if i else x`, and `[layer(x) for layer in self.layers if layer]`. */
static void add_condition(struct callsite *s, const struct body *b)
{
	char text[CALLTEXT_MAX], *condition, *other;
	const char *called;

	if (!line_of(text, b, b->call) || is_arm(text) || !(condition = strstr(text, " if ")))
		return;
	*condition = 0;
	called = calltext_find_word(text, b->word);
	condition += strlen(" if ");
	other = strstr(condition, " else ");
	if (other)
		*other = 0;
	if (!other && !strstr(text, " for "))
		return;
	if (other && called && calltext_find_word(other + strlen(" else "), b->word)) {
		s->branch = b->call;
		return;
	}
	s->may_skip = true;
	s->skips |= does_tell(b, condition);
}

void callbranch_read(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line,
		     const char *word)
{
	struct body b = { .sources = s, .code = code, .loop = c->loop_line, .call = line, .word = word };
	size_t outer = calltext_indentation(s, code, line), indent;
	char text[CALLTEXT_MAX];

	find_tells(&b);
	add_condition(c, &b);
	for (uint32_t i = b.loop + 1; i < line; i++)
		if (line_of(text, &b, i) && (begins(text, "continue") || strstr(text, ": continue")))
			add_continue(c, &b, i, text);
	for (uint32_t i = line; i > b.loop; i--) {
		struct chain chain;

		indent = indentation_of(&b, i);
		if (!line_of(text, &b, i) || (i < line && indent >= outer))
			continue;
		outer = indent;
		if (!is_arm(text))
			continue;
		chain = chain_at(&b, i, indent);
		add_chain(c, &chain);
	}
}
