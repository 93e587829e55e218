/* SPDX-License-Identifier: MIT */
/* Reading and matching the rules of categories; see category_rules.h. */
#include "analyzer/purpose/category_rules.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/basename.h"
#include "analyzer/recording/rulesfile.h"

#define WORDS_MAX 4

const char *const category_names[NR_CATEGORIES] = {
	[CATEGORY_PARAMETER] = "parameter",         [CATEGORY_GRADIENT] = "gradient",
	[CATEGORY_OPTIMIZER_STATE] = "optimizer_state", [CATEGORY_ACTIVATION] = "activation",
	[CATEGORY_INPUT] = "input",                 [CATEGORY_WORKSPACE] = "workspace",
	[CATEGORY_COMMUNICATION] = "communication", [CATEGORY_TEMPORARY] = "temporary",
	[CATEGORY_UNKNOWN] = "unknown",             [CATEGORY_BUFFER] = "buffer",
};

struct rule {
	const char *file, *function, *life, *category;
};

static const struct rule builtin[] = {
#define RULE(file, function, life, category) { file, function, life, category },
#include "analyzer/purpose/categories.def"
#undef RULE
};

static struct {
	struct rule *rule;
	size_t nr_rules, room;
} user;

static enum category category_named(const char *name)
{
	int i = 0;

	if (!strcmp(name, "-"))
		return CATEGORY_PASS_OVER;
	while (i < NR_CATEGORIES && strcmp(category_names[i], name))
		i++;
	return i < NR_CATEGORIES ? (enum category)i : CATEGORY_NO_RULE;
}

/* Take in one line; NULL, or why it cannot be. */
static const char *add_line(char *line)
{
	char any_function[] = "*", any_life[] = "any";
	char *word[WORDS_MAX] = { NULL, NULL, any_function, any_life };
	int nr = rulesfile_split(line, word, WORDS_MAX);
	struct rule *r;

	if (!nr)
		return NULL;
	if (nr == 1 || nr > WORDS_MAX)
		return "expected FILE CATEGORY [FUNCTION [LIFE]]";
	if (category_named(word[1]) == CATEGORY_NO_RULE)
		return "no category has this name: parameter, gradient, optimizer_state, activation, input, workspace, "
		       "communication, temporary, unknown, or - to pass the frame over";
	if (strcmp(word[3], "any") && strcmp(word[3], "kept") && strcmp(word[3], "freed"))
		return "the life of a block is any, kept or freed";
	user.rule = heap_grow(user.rule, &user.room, user.nr_rules + 1, sizeof(*user.rule));
	r = &user.rule[user.nr_rules++];
	*r = (struct rule){ heap_copy(word[0]), heap_copy(word[2]), heap_copy(word[3]), heap_copy(word[1]) };
	return NULL;
}

static struct rulesfile users_file = { .variable = "VRAMTRACE_CATEGORIES", .name = "categories", .add = add_line };

int category_rules_load(void)
{
	return rulesfile_load(&users_file);
}

static bool fits(const struct rule *r, const char *file, const char *function, bool kept)
{
	if (strcmp(r->life, "any") && kept != !strcmp(r->life, "kept"))
		return false;
	return !fnmatch(r->function, function, 0) &&
	       !fnmatch(r->file, strchr(r->file, '/') ? file : basename_of(file), 0);
}

enum category category_rules_match(const char *file, const char *function, bool kept)
{
	for (size_t i = 0; i < user.nr_rules; i++)
		if (fits(&user.rule[i], file, function, kept))
			return category_named(user.rule[i].category);
	for (size_t i = 0; i < sizeof(builtin) / sizeof(*builtin); i++)
		if (fits(&builtin[i], file, function, kept))
			return category_named(builtin[i].category);
	return CATEGORY_NO_RULE;
}
