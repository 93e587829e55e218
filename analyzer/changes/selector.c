/* SPDX-License-Identifier: MIT */
/* Patterns against categories, modules, names and stacks. */
#include "analyzer/changes/selector.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

enum { ASKED_NO = 1, ASKED_YES };

#define TEXT_MAX 1024

static const char *const prefixes[] = {
	[SELECTOR_CATEGORY] = "category=",
	[SELECTOR_MODULE] = "module=",
	[SELECTOR_NAME] = "name=",
	[SELECTOR_STACK] = "stack=",
};

static char *joined(const char *before, const char *text, const char *after)
{
	size_t size = strlen(before) + strlen(text) + strlen(after) + 1;
	char *all = heap_alloc(size, 1);

	snprintf(all, size, "%s%s%s", before, text, after);
	return all;
}

static bool is_category(struct selector *s)
{
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (!strcmp(category_names[i], s->pattern)) {
			s->by = SELECTOR_CATEGORY;
			s->category = (enum category)i;
			return true;
		}
	return false;
}

bool selector_read(struct selector *s, const char *text, size_t length, char *why, size_t size)
{
	*s = (struct selector){ .by = SELECTOR_ANY };
	for (int i = SELECTOR_CATEGORY; i <= SELECTOR_STACK; i++) {
		size_t n = strlen(prefixes[i]);

		if (length < n || memcmp(text, prefixes[i], n))
			continue;
		s->by = (enum selector_by)i;
		text += n;
		length -= n;
		break;
	}
	s->pattern = heap_alloc(length + 1, 1);
	memcpy(s->pattern, text, length);
	s->within = joined("", s->pattern, "[.[]*");
	s->kept = joined("* of ", s->pattern, "");
	s->kept_within = joined("* of ", s->pattern, "[.[]*");
	if (!length) {
		snprintf(why, size, "it names nothing");
		return false;
	}
	if (s->by == SELECTOR_CATEGORY || s->by == SELECTOR_ANY) {
		if (is_category(s) || s->by == SELECTOR_ANY)
			return true;
		snprintf(why, size, "there is no category '%s'", s->pattern);
		return false;
	}
	return true;
}

void selector_release(struct selector *s)
{
	free(s->pattern);
	free(s->within);
	free(s->kept);
	free(s->kept_within);
	free(s->of_path);
	free(s->of_group);
	*s = (struct selector){ 0 };
}

static bool matches(const char *pattern, const char *text)
{
	return !fnmatch(pattern, text, 0);
}

/* The answer about the nth of its kind that was given before, by whoever fills it in. */
static uint8_t *answer(uint8_t **answers, uint32_t *nr, uint32_t n)
{
	if (n >= *nr) {
		size_t room = *nr;

		*answers = heap_grow(*answers, &room, (size_t)n + 1, 1);
		memset(*answers + *nr, 0, room - *nr);
		*nr = (uint32_t)room;
	}
	return &(*answers)[n];
}

/* ---- modules ------------------------------------------------------------------------------------ */

/* As the program finds it, or as the model calls it, without the variable that the model is in. */
static bool is_path(const struct selector *s, const char *text)
{
	const char *dot = strchr(text, '.');

	return matches(s->pattern, text) || (dot && matches(s->pattern, dot + 1));
}

bool selector_means_path(struct selector *s, const struct modulepaths *paths, uint32_t path)
{
	char text[TEXT_MAX];
	bool is_meant = false;
	uint8_t *known;

	if (!path)
		return false;
	known = answer(&s->of_path, &s->nr_paths, path);
	if (*known)
		return *known == ASKED_YES;
	modulepaths_text(paths, path, 0, text, sizeof(text));
	is_meant = is_path(s, text) || selector_means_path(s, paths, paths->path[path - 1].parent);
	*answer(&s->of_path, &s->nr_paths, path) = is_meant ? ASKED_YES : ASKED_NO;
	return is_meant;
}

/* ---- stacks ------------------------------------------------------------------------------------- */

static bool is_frame(const struct selector *s, const struct stack_frame *f)
{
	char text[TEXT_MAX];
	const char *end;

	if (f->function && matches(s->pattern, f->function))
		return true;
	if (!f->file)
		return false;
	snprintf(text, sizeof(text), "%s:%u", f->file, f->line);
	for (end = text; end; end = strchr(end, '/'), end += end ? 1 : 0)
		if (matches(s->pattern, end))
			return true;
	return false;
}

/* All blocks of a group were made by one stack. */
static bool means_group(struct selector *s, const struct jobpart *j, uint32_t group)
{
	uint8_t *known = answer(&s->of_group, &s->nr_groups, group);
	struct stack_source source;
	struct stack stack = { 0 };
	bool is_meant = false;

	if (*known)
		return *known == ASKED_YES;
	source = replay_stack_source(j->replay, j->device->process);
	stack_expand(&stack, &source, books_group(j->device->process->books, group)->python_stack, 0);
	for (uint32_t i = 0; i < stack.nr_frames && !is_meant; i++)
		is_meant = stack.frame[i].python && is_frame(s, &stack.frame[i]);
	stack_release(&stack);
	*answer(&s->of_group, &s->nr_groups, group) = is_meant ? ASKED_YES : ASKED_NO;
	return is_meant;
}

/* ---- names -------------------------------------------------------------------------------------- */

static bool means_name(const struct selector *s, const struct jobpart *j, const struct life *life)
{
	const struct names *names = j->device->process->names;
	struct names_block block = { life->address, life->size, life->birth.ordinal, life->death.ordinal, life->device };
	struct named named;
	const char *text = named.name.text;

	return names && names_find(&named, names, &block, life->birth.ordinal) &&
	       (matches(s->pattern, text) || matches(s->within, text) || matches(s->kept, text) ||
		matches(s->kept_within, text));
}

/* A library's workspace that stays is there for all: without whoever came first another would have made it. */
static bool is_anyones(const struct jobpart *j, const struct category_block *b)
{
	return b->category == CATEGORY_WORKSPACE && b->life.death.ordinal > j->to;
}

bool selector_means(struct selector *s, const struct jobpart *j, size_t block)
{
	const struct category_block *b = &j->blocks.block[block];
	const struct modulepaths *paths = j->device->process->modulepaths;

	if (s->by == SELECTOR_CATEGORY)
		return b->category == s->category;
	if (is_anyones(j, b))
		return false;
	if (s->by == SELECTOR_ANY && !strcmp(s->pattern, "*")) /* also what has neither module, nor name, nor stack */
		return true;
	if ((s->by == SELECTOR_MODULE || s->by == SELECTOR_ANY) && paths && selector_means_path(s, paths, b->module))
		return true;
	if (s->by != SELECTOR_STACK && means_name(s, j, &b->life))
		return true;
	return (s->by == SELECTOR_STACK || s->by == SELECTOR_ANY) && means_group(s, j, b->life.group);
}
