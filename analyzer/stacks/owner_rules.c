/* SPDX-License-Identifier: MIT */
/* Reading and matching the rules of owners; see owner_rules.h. */
#include "analyzer/stacks/owner_rules.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/basename.h"
#include "analyzer/recording/rulesfile.h"

#define OWNER_NAME_MAX 32
#define WORDS_MAX 3

struct rule {
	const char *pattern, *function; /* function NULL: any */
	int owner;
};

static struct {
	struct rule *rule; /* the user's */
	size_t nr_rules, room;
	bool need_functions;
} user;

static const struct {
	const char *pattern, *owner;
} builtin[] = {
#define TITLE(owner, title)
#define RULE(pattern, owner) { pattern, owner },
#include "analyzer/stacks/owners.def"
#undef TITLE
#undef RULE
};
#define NR_BUILTIN (sizeof(builtin) / sizeof(*builtin))
static int builtin_owner[NR_BUILTIN]; /* + 1; 0 = not looked up yet */

static const char *title_of(const char *name)
{
	static const char *const title[][2] = {
#define TITLE(owner, text) { owner, text },
#define RULE(pattern, owner)
#include "analyzer/stacks/owners.def"
#undef TITLE
#undef RULE
	};

	for (size_t i = 0; i < sizeof(title) / sizeof(*title); i++)
		if (!strcmp(title[i][0], name))
			return title[i][1];
	return name;
}

/* The number of an owner by that name, a new one if need be; -1 when there are too many. */
static int owner_number(const char *name)
{
	if (!strcmp(name, "-"))
		return OWNER_PASS_OVER;
	for (int i = 0; i < NR_OWNERS; i++) {
		if (!owner_names[i]) {
			owner_names[i] = heap_copy(name);
			owner_titles[i] = title_of(owner_names[i]);
		}
		if (!strcmp(owner_names[i], name))
			return i;
	}
	return -1;
}

static bool is_owner_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");

	return n && n <= OWNER_NAME_MAX && !name[n];
}

/* Take in one line; NULL, or why it cannot be. */
static const char *add_line(char *line)
{
	char *word[WORDS_MAX];
	int nr = rulesfile_split(line, word, WORDS_MAX);
	struct rule rule;

	if (!nr)
		return NULL;
	if (nr == 1 || nr > WORDS_MAX)
		return "expected PATTERN OWNER, or PATTERN OWNER FUNCTION";
	if (!is_owner_name(word[1]))
		return "an owner's name has letters, digits and . _ + -, at most 32";
	if (!strcmp(word[1], "context") || !strcmp(word[1], "code"))
		return "'context' and 'code' are what the driver takes itself: choose another name";
	rule.owner = owner_number(word[1]);
	if (rule.owner < 0)
		return "too many owners";
	rule.pattern = heap_copy(word[0]);
	rule.function = nr == WORDS_MAX ? heap_copy(word[2]) : NULL;
	user.rule = heap_grow(user.rule, &user.room, user.nr_rules + 1, sizeof(*user.rule));
	user.rule[user.nr_rules++] = rule;
	user.need_functions |= rule.function != NULL;
	return NULL;
}

static struct rulesfile users_file = { .variable = "VRAMTRACE_OWNERS", .name = "owners", .add = add_line };

int owner_rules_load(void)
{
	return rulesfile_load(&users_file);
}

bool owner_rules_need_functions(void)
{
	return user.need_functions;
}

static bool fits(const char *pattern, const char *path)
{
	return !fnmatch(pattern, strchr(pattern, '/') ? path : basename_of(path), 0);
}

int owner_rules_match(const char *path, const char *(*function)(void *ctx), void *ctx)
{
	for (size_t i = 0; i < user.nr_rules; i++) {
		const struct rule *r = &user.rule[i];
		const char *name;

		if (!fits(r->pattern, path))
			continue;
		name = r->function && function ? function(ctx) : NULL;
		if (!r->function || (name && !fnmatch(r->function, name, 0)))
			return r->owner;
	}
	for (size_t i = 0; i < NR_BUILTIN; i++) {
		if (!fits(builtin[i].pattern, path))
			continue;
		if (!builtin_owner[i])
			builtin_owner[i] = owner_number(builtin[i].owner) + 1;
		return builtin_owner[i] ? builtin_owner[i] - 1 : OWNER_PROGRAM;
	}
	return OWNER_NO_RULE;
}
