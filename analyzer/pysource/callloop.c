/* SPDX-License-Identifier: MIT */
/* Loops' variables, and what they go through. */
#include "analyzer/pysource/callloop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/pysource/calltext.h"

#define FILE_LINES 3000 /* that are searched for where a member is made */

/* Where a variable stands among those that a loop binds: "for i, (layer, past) in ...". */
struct target {
	bool found, is_alone, is_grouped; /* the only one; in brackets */
	uint32_t nth, nth_in_group;
};

static struct target find_target(const char *targets, size_t targets_len, const char *name, size_t len)
{
	struct target t = { .is_alone = true };
	uint32_t nth = 0, nth_in_group = 0;
	int open = 0;

	for (size_t i = 0; i < targets_len; i++) {
		if (targets[i] == '(') {
			open++;
			nth_in_group = 0;
		}
		open -= targets[i] == ')';
		if (targets[i] == ',') {
			nth += !open;
			nth_in_group += open > 0;
			t.is_alone = false;
		}
		if (!t.found && (!i || !calltext_is_name(targets[i - 1])) &&
		    calltext_begins_with(targets + i, name, len)) {
			t.found = true;
			t.is_grouped = open > 0;
			t.nth = nth;
			t.nth_in_group = nth_in_group;
		}
	}
	return t;
}

/* If the text is a call of this function, its nr-th argument as a text of its own; else NULL. */
static char *argument(char *text, const char *function, uint32_t nr)
{
	size_t len = strlen(function), argument_len;
	char *found;

	if (strncmp(text, function, len) || text[len] != '(')
		return NULL;
	found = (char *)calltext_listed(text + len + 1, nr, &argument_len);
	if (found)
		found[argument_len] = 0;
	return found;
}

static bool is_number(const char *text, size_t len)
{
	return len && strspn(text, "0123456789") >= len;
}

/* "[1:]", "[i]" behind a list's name: it begins there, or it is one of several itself. */
static void read_part(struct callsite *c, const char *part, size_t len)
{
	const char *colon = memchr(part, ':', len);
	size_t from = strlen(c->name);

	if (colon && (colon == part || is_number(part, (size_t)(colon - part)))) {
		c->first = (uint32_t)strtoul(part, NULL, 10);
		c->is_any |= memchr(colon + 1, ':', len - (size_t)(colon + 1 - part)) != NULL;
	} else if (colon) {
		c->is_any = true;
	} else if (is_number(part, len)) {
		snprintf(c->name + from, sizeof(c->name) - from, ".%.*s", (int)len, part);
	} else {
		snprintf(c->name + from, sizeof(c->name) - from, ".*");
	}
}

/* "self.a, self.b)": the k-th call is of the k-th. */
static bool read_listed(struct callsite *c, const char *list, const char *owner)
{
	const char *listed, *member;
	size_t len;

	for (c->nr_listed = 0; (listed = calltext_listed(list, c->nr_listed, &len)); c->nr_listed++) {
		member = calltext_member_of(listed, owner);
		len -= member ? (size_t)(member - listed) : 0;
		if (!member || c->nr_listed == CALLSITE_LISTED_MAX || strcspn(member, "[( ") < len)
			return false;
		calltext_copy(c->listed[c->nr_listed], member, len);
	}
	c->indexed = true;
	return c->nr_listed > 0;
}

/* `self.heads._modules` are the members of `self.heads`. */
static void drop_modules(char *name)
{
	char *end = strstr(name, "_modules");

	if (end && !end[strlen("_modules")])
		end[-(end > name)] = 0;
}

/* What `self.layers` and the like, without what is wrapped around it, is, of which the target is taken. */
static bool read_iterated(struct callsite *c, const char *over, const struct target *t, const char *owner)
{
	const char *member = calltext_member_of(over, owner);
	size_t len = 0, end;

	while (member && (calltext_is_name(member[len]) || (member[len] == '.' && calltext_is_name(member[len + 1]))))
		len++;
	if (!len)
		return false;
	for (const char *const *f = (const char *const[]){ ".values", ".items", ".children", ".keys", NULL }; *f; f++) {
		end = len - strlen(*f);
		if (member[len] != '(' || len < strlen(*f) || strncmp(member + end, *f, strlen(*f)))
			continue;
		calltext_copy(c->name, member, end);
		drop_modules(c->name);
		c->indexed = true;
		c->by_key = strcmp(*f, ".children") != 0;
		return (*f)[1] != 'i' || (!t->is_alone && t->nth == 1);
	}
	c->indexed = true;
	if (member[len] == '(') {
		c->is_any = true; /* what a method gives: of which list, nobody knows */
		return true;
	}
	calltext_copy(c->name, member, len);
	if (member[len] == '[') {
		end = strcspn(member + len, "]");
		read_part(c, member + len + 1, end ? end - 1 : 0);
	}
	if (!t->is_alone)
		snprintf(c->behind, sizeof(c->behind), "%u", t->nth);
	return true;
}

static bool is_bare_name(const char *text)
{
	while (calltext_is_name(*text))
		text++;
	return !*text;
}

/* What stands behind " in ", of which the target is taken. false: of nothing of the owner's. */
static bool read_over(struct callsite *c, char *over, struct target *t, const char *owner)
{
	char *inner = argument(over, "enumerate", 0);
	const char *self;

	if (inner) {
		if (!t->nth)
			return false; /* the number */
		*t = (struct target){ true, !t->is_grouped, false, t->nth_in_group, 0 };
		over = inner;
	}
	if (t->is_grouped)
		return false;
	if (!strncmp(over, "zip(", 4)) {
		over = t->is_alone ? NULL : argument(over, "zip", t->nth);
		t->is_alone = true;
	}
	inner = over ? argument(over, "reversed", 0) : NULL;
	if (inner)
		c->is_any = true;
	over = inner ? inner : over;
	if (!over)
		return false;
	if (*over == '(' || *over == '[')
		return t->is_alone && !c->is_any && read_listed(c, over + 1, owner);
	if (calltext_member_of(over, owner))
		return read_iterated(c, over, t, owner);
	if (t->is_alone && !strcmp(over, owner)) {
		c->indexed = true; /* what goes through itself, as an nn.Sequential does */
		return true;
	}
	if (t->is_alone && is_bare_name(over)) {
		calltext_copy(c->name, over, strlen(over));
		c->indexed = c->is_variable = true;
		return true;
	}
	self = calltext_find_word(over, owner);
	if (!self || !calltext_member_of(self, owner))
		return false;
	c->is_any |= calltext_find_word(self + 1, owner) || !strncmp(over, "sorted(", 7) || !strncmp(over, "chain(", 6);
	return read_iterated(c, self, t, owner);
}

/* Ends the text before the colon of the statement, the bracket that the comprehension is in, or its condition. */
static void cut_behind(char *over)
{
	char *condition = strstr(over, " if ");
	int open = 0;

	if (condition)
		*condition = 0;
	for (; *over; over++) {
		open += calltext_open_brackets(over, 1);
		if (open < 0 || (!open && *over == ':')) {
			*over = 0;
			return;
		}
	}
}

/*
 * The loop of this text that binds the variable, from its " in " on: cut behind what it goes through. NULL:
 * none does.
 */
static char *loop_over(char *text, const char *name, size_t len, bool within, struct target *t)
{
	for (char *loop = text; loop; loop = within ? strstr(loop + 1, " for ") : NULL) {
		char *targets = loop + (*loop == ' '), *in = strstr(targets, " in "), *over;

		if (strncmp(targets, "for ", 4) || !in)
			continue;
		targets += 4;
		*t = find_target(targets, (size_t)(in - targets), name, len);
		if (!t->found)
			continue;
		over = in + 4;
		cut_behind(over);
		return over;
	}
	return NULL;
}

bool callloop_read(struct callsite *c, char *line, const char *name, size_t len, bool within, const char *owner)
{
	struct callsite found = { 0 };
	struct target t;
	char *over = loop_over(line, name, len, within, &t);

	if (!over || !read_over(&found, over, &t, owner))
		return false;
	*c = found;
	return true;
}

/* Numbers, or (`name` of the list) keys, that a loop binds the index to. */
static void read_index_loop(struct callsite *c, char *over, const struct target *t)
{
	char *start, *end = strpbrk(over, ".(");
	bool is_range = !strncmp(over, "range(", 6), is_enumerated = !strncmp(over, "enumerate(", 10);
	bool is_keys = strstr(over, c->name) &&
		       (!end || strstr(over, ".keys(") || strstr(over, ".items(") || *end == '.');
	size_t len;

	if (is_range || (is_enumerated && !t->nth && !t->is_grouped)) {
		bool has_two = (start = (char *)calltext_listed(strchr(over, '(') + 1, 1, &len)) != NULL;

		c->is_any |= is_range && calltext_listed(strchr(over, '(') + 1, 2, &len) != NULL;
		if (has_two && is_range)
			start = (char *)calltext_listed(strchr(over, '(') + 1, 0, &len);
		if (has_two && (!start || !is_number(start, len)))
			c->is_any = true;
		else if (has_two)
			c->first += (uint32_t)strtoul(start, NULL, 10);
	} else if (is_keys && !t->nth && !is_enumerated) {
		c->by_key = true;
	} else {
		c->is_any = true;
	}
}

/* Is the member made an nn.ModuleDict somewhere in the file? */
static bool is_dict(struct sourcetext *s, const struct tfmt_code *code, const char *name)
{
	char line[CALLTEXT_MAX];
	const char *at;

	for (uint32_t i = 1; i < FILE_LINES && sourcetext_line(s, code->file, i, &(size_t){ 0 }); i++)
		if (calltext_line(line, s, code, i) && (at = calltext_find_word(line, name)) && strchr(at, '=') &&
		    strstr(at, "ModuleDict"))
			return true;
	return false;
}

void callloop_index(struct callsite *c, struct sourcetext *s, const struct tfmt_code *code, uint32_t line, char *index)
{
	uint32_t first = calltext_first_line(s, code);
	size_t len = 0, outer = calltext_indentation(s, code, line), indent;
	char text[CALLTEXT_MAX], *over;
	struct target t;

	while (calltext_is_name(index[len]))
		len++;
	c->indexed = true;
	if (!strncmp(index + len, " + ", 3) && is_number(index + len + 3, strlen(index + len + 3)))
		c->first = (uint32_t)strtoul(index + len + 3, NULL, 10);
	else if (!len || index[len])
		c->is_any = true;
	for (uint32_t i = line; i >= first && i && !c->is_any; i--) {
		indent = calltext_indentation(s, code, i);
		if ((i < line && indent >= outer) || !calltext_line(text, s, code, i))
			continue;
		outer = indent;
		over = loop_over(text, index, len, i == line, &t);
		if (over) {
			c->loop_line = i;
			read_index_loop(c, over, &t);
			return;
		}
	}
	c->is_unbound = !c->is_any;
	if (c->is_unbound && is_dict(s, code, c->name))
		c->is_any = true;
}
