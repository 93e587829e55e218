/* SPDX-License-Identifier: MIT */
/* Reading and matching the rules of owners; see owner_rules.h. */
#include "analyzer/owner_rules.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/command.h"
#include "analyzer/mapping.h"
#include "analyzer/ui/message.h"

#define OWNER_NAME_MAX 32
#define WORDS_MAX 3

struct rule {
	const char *pattern, *function; /* function NULL: any */
	int owner;
};

static struct {
	struct rule *rule; /* the user's */
	size_t nr_rules;
	bool need_functions;
} user;

static const struct {
	const char *pattern, *owner;
} builtin[] = {
#define TITLE(owner, title)
#define RULE(pattern, owner) { pattern, owner },
#include "analyzer/owners.def"
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
#include "analyzer/owners.def"
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
			owner_names[i] = strdup(name);
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

/* Cut a line into words, up to a comment. Returns how many there are, also of those that do not fit. */
static int split(char *line, char *word[static WORDS_MAX])
{
	int nr = 0;

	line[strcspn(line, "#\r\n")] = 0;
	for (char *p = line; *p;) {
		if (isspace((unsigned char)*p)) {
			*p++ = 0;
			continue;
		}
		if (nr < WORDS_MAX)
			word[nr] = p;
		nr++;
		p += strcspn(p, " \t");
	}
	return nr;
}

/* Take in one line; NULL, or why it cannot be. */
static const char *add_line(char *line)
{
	char *word[WORDS_MAX];
	int nr = split(line, word);
	struct rule rule, *grown;

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
	rule.pattern = strdup(word[0]);
	rule.function = nr == WORDS_MAX ? strdup(word[2]) : NULL;
	grown = realloc(user.rule, (user.nr_rules + 1) * sizeof(*grown));
	if (!rule.pattern || (nr == WORDS_MAX && !rule.function) || !grown)
		abort();
	user.rule = grown;
	user.rule[user.nr_rules++] = rule;
	user.need_functions |= rule.function != NULL;
	return NULL;
}

/* The user's file; "" = none. *is_named: it was asked for, and must be there. */
static const char *file_name(char *buf, size_t size, bool *is_named)
{
	const char *named = getenv("VRAMTRACE_OWNERS"), *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	*is_named = named && *named;
	if (*is_named)
		return named;
	if (config && *config)
		snprintf(buf, size, "%s/vramtrace/owners", config);
	else if (home && *home)
		snprintf(buf, size, "%s/.config/vramtrace/owners", home);
	else
		*buf = 0;
	return buf;
}

static int load(void)
{
	char buf[PATH_MAX], *line = NULL;
	const char *reason = NULL, *path;
	size_t size = 0, number = 0;
	bool is_named;
	FILE *f;

	path = file_name(buf, sizeof(buf), &is_named);
	f = *path ? fopen(path, "re") : NULL;
	if (!f && !is_named && (!*path || errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!f)
		return message_error("cannot open '%s' (VRAMTRACE_OWNERS): %s", path, strerror(errno));
	while (!reason && getline(&line, &size, f) >= 0) {
		number++;
		reason = add_line(line);
	}
	if (!reason && ferror(f))
		reason = strerror(errno);
	free(line);
	fclose(f);
	return reason ? message_error("'%s', line %zu: %s", path, number, reason) : 0;
}

int owner_rules_load(void)
{
	static int status = -1; /* of the first call; it has said what is wrong */

	if (status < 0)
		status = load();
	return status;
}

bool owner_rules_need_functions(void)
{
	return user.need_functions;
}

static bool fits(const char *pattern, const char *path)
{
	return !fnmatch(pattern, strchr(pattern, '/') ? path : mapping_base_name(path), 0);
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
