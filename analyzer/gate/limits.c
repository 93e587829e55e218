/* SPDX-License-Identifier: MIT */
/* Limits from options and files. */
#include "analyzer/gate/limits.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/recording/toml.h"

const char *const limit_names[NR_LIMIT_KINDS] = { "max-peak", "max-reserved", "max-device-used",
						  "max-growth-per-step", "max-fragmentation", "max-category",
						  "no-leaks", "no-oom", "any-oom" };

#define PERCENT_MOST 1000

/* What can be said, and where in struct limit_opts. */
static const struct setting {
	const char *key;
	size_t offset;
	bool is_flag;
	enum limit_kind kind; /* NR_LIMIT_KINDS: no limit by itself */
} settings[] = {
	{ "max-peak", offsetof(struct limit_opts, max_peak), false, LIMIT_PEAK },
	{ "max-reserved", offsetof(struct limit_opts, max_reserved), false, LIMIT_RESERVED },
	{ "max-device-used", offsetof(struct limit_opts, max_device_used), false, LIMIT_DEVICE_USED },
	{ "max-growth-per-step", offsetof(struct limit_opts, max_growth), false, LIMIT_GROWTH },
	{ "max-category", offsetof(struct limit_opts, max_category), false, LIMIT_CATEGORY },
	{ "no-leaks", offsetof(struct limit_opts, no_leaks), true, LIMIT_NO_LEAKS },
	{ "max-fragmentation", offsetof(struct limit_opts, max_fragmentation), false, LIMIT_FRAGMENTATION },
	{ "no-oom", offsetof(struct limit_opts, no_oom), true, LIMIT_NO_OOM },
	{ "any-oom", offsetof(struct limit_opts, any_oom), true, LIMIT_ANY_OOM },
	{ "baseline", offsetof(struct limit_opts, baseline), false, NR_LIMIT_KINDS },
	{ "tolerance", offsetof(struct limit_opts, tolerance), false, NR_LIMIT_KINDS },
};
#define NR_SETTINGS (sizeof(settings) / sizeof(*settings))

/* ---- values ---------------------------------------------------------------------------------- */

bool limits_parse_percent(const char *text, uint64_t *hundredths, char *why, size_t size)
{
	size_t digits = strspn(text, "0123456789.");
	char *end;
	double percent = strtod(text, &end);

	if (!digits || end != text + digits || strcmp(end, "%")) {
		snprintf(why, size, "'%s' is no percentage such as 2%%", text);
		return false;
	}
	if (percent > PERCENT_MOST) {
		snprintf(why, size, "'%s' is more than %d%%", text, PERCENT_MOST);
		return false;
	}
	*hundredths = (uint64_t)(percent * 100 + 0.5);
	return true;
}

/* "64MiB", "20GiB": a size with its unit. False after writing why into why[size]. */
static bool parse_size(const char *text, uint64_t *bytes, char *why, size_t size)
{
	size_t len = strlen(text);

	if (!human_parse_bytes(text, bytes))
		snprintf(why, size, "'%s' is no size such as 20GiB", text);
	else if (!isalpha((unsigned char)text[len - 1]))
		snprintf(why, size, "'%s' has no unit: %sGiB, %sMiB, %sB ...", text, text, text, text);
	else if (*bytes > (uint64_t)INT64_MAX)
		snprintf(why, size, "'%s' is too large", text);
	else
		return true;
	return false;
}

bool limits_parse_tolerance(const char *text, struct tolerance *t, char *why, size_t size)
{
	uint64_t hundredths = 0;

	*t = (struct tolerance){ .is_percent = strchr(text, '%') };
	if (t->is_percent && !limits_parse_percent(text, &hundredths, why, size))
		return false;
	t->percent = (double)hundredths / 100;
	if (t->is_percent || parse_size(text, &t->bytes, why, size))
		return true;
	snprintf(why, size, "'%s' is no tolerance such as 2%% or 64MiB", text);
	return false;
}

/* "rank0=", "gpu1=": returns what is after, text itself if there is none of it. */
static const char *parse_selector(const char *text, struct limit *limit)
{
	static const char *const words[] = { "rank", "gpu" };

	for (int i = 0; i < 2; i++) {
		size_t len = strlen(words[i]);
		char *end;
		unsigned long number;

		if (strncmp(text, words[i], len) || !isdigit((unsigned char)text[len]))
			continue;
		number = strtoul(text + len, &end, 10);
		if (*end != '=' || number > INT32_MAX)
			continue;
		*(i ? &limit->gpu : &limit->rank) = (int64_t)number;
		return end + 1;
	}
	return text;
}

/* "activation=": returns what is after, NULL after writing why. */
static const char *parse_category(const char *text, struct limit *limit, char *why, size_t size)
{
	const char *equals = strchr(text, '=');
	size_t n;

	for (int i = 0; equals && i < NR_CATEGORIES; i++) {
		if (strlen(category_names[i]) != (size_t)(equals - text) ||
		    strncmp(text, category_names[i], (size_t)(equals - text)))
			continue;
		limit->category = (enum category)i;
		return equals + 1;
	}
	n = (size_t)snprintf(why, size, "'%.64s' does not begin with a category and '=':", text);
	for (int i = 0; i < NR_CATEGORIES && n < size; i++)
		n += (size_t)snprintf(why + n, size - n, "%s%s", i ? ", " : " ", category_names[i]);
	return NULL;
}

/* One of a list. */
static bool parse_limit(const char *text, struct limit *limit, char *why, size_t size)
{
	text = parse_selector(text, limit);
	if (limit->kind == LIMIT_CATEGORY)
		text = parse_category(text, limit, why, size);
	if (!text)
		return false;
	return limit->kind == LIMIT_FRAGMENTATION ? limits_parse_percent(text, &limit->most, why, size)
						  : parse_size(text, &limit->most, why, size);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void add_limit(struct limits *l, const struct limit *limit)
{
	l->limit = heap_need(realloc(l->limit, (l->nr_limits + 1) * sizeof(*l->limit)));
	l->limit[l->nr_limits++] = *limit;
}

/* A list of values: "20GiB, rank0=24GiB". False after writing why. */
static bool add_list(struct limits *l, enum limit_kind kind, const char *origin, const char *text, char *why,
		     size_t size)
{
	char *list = heap_copy(text), *rest = list, *word;
	bool ok = true;

	while (ok && (word = strsep(&rest, ",")) != NULL) {
		struct limit limit = { .kind = kind, .rank = -1, .gpu = -1 };

		snprintf(limit.origin, sizeof(limit.origin), "%s", origin);
		word += strspn(word, " ");
		for (size_t len = strlen(word); len && word[len - 1] == ' ';)
			word[--len] = 0;
		ok = parse_limit(word, &limit, why, size);
		if (ok)
			add_limit(l, &limit);
	}
	free(list);
	return ok;
}

/* Enter a setting; folder: where a baseline's path begins, NULL = here. False after writing why. */
static bool take_setting(struct limits *l, const struct setting *s, const char *origin, const char *text,
			 const char *folder, char *why, size_t size)
{
	struct limit flag = { .kind = s->kind, .rank = -1, .gpu = -1 };

	if (!strcmp(s->key, "tolerance"))
		return limits_parse_tolerance(text, &l->tolerance, why, size);
	if (!strcmp(s->key, "baseline")) {
		if (folder && *text != '/')
			snprintf(l->baseline, sizeof(l->baseline), "%s%s", folder, text);
		else
			snprintf(l->baseline, sizeof(l->baseline), "%s", text);
		return true;
	}
	if (!s->is_flag)
		return add_list(l, s->kind, origin, text, why, size);
	snprintf(flag.origin, sizeof(flag.origin), "%s", origin);
	add_limit(l, &flag);
	return true;
}

/* What an option says, "" for a flag; NULL = nothing. */
static const char *option_text(const struct limit_opts *o, const struct setting *s)
{
	const char *field = (const char *)o + s->offset;

	if (s->is_flag)
		return *(const bool *)field ? "" : NULL;
	return *(const char *const *)field;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int __attribute__((format(printf, 3, 4)))
wrong(const char *path, const struct toml_node *at, const char *format, ...)
{
	char reason[512];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return message_error("cannot use limits file '%s': line %u: %s", path, at->line, reason);
}

static int take_key(struct limits *l, const struct limit_opts *o, const char *path, const char *folder,
		    const struct toml_node *node)
{
	enum toml_type type;
	char origin[64], why[256];
	size_t i = 0;

	while (i < NR_SETTINGS && strcmp(settings[i].key, node->key))
		i++;
	if (i == NR_SETTINGS)
		return wrong(path, node, "unknown key '%s'; they are named as the options of 'vramtrace check'",
			     node->key);
	type = settings[i].is_flag ? TOML_BOOLEAN : TOML_STRING;
	if (node->type != type)
		return wrong(path, node, "'%s' is %s, expected %s", node->key, toml_type_name(node->type),
			     type == TOML_STRING ? "a string such as \"20GiB\"" : toml_type_name(type));
	if (option_text(o, &settings[i]) || (settings[i].is_flag && !node->boolean))
		return CMD_FINE;
	snprintf(origin, sizeof(origin), "%s:%u", path + strlen(folder), node->line);
	return take_setting(l, &settings[i], origin, settings[i].is_flag ? "" : node->string, folder, why, sizeof(why))
		       ? CMD_FINE
		       : wrong(path, node, "'%s': %s", node->key, why);
}

static int take_file(struct limits *l, const struct limit_opts *o, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = heap_need(strndup(path, slash ? (size_t)(slash - path) + 1 : 0)), *reason = NULL;
	const struct toml_node *root;
	unsigned line;
	struct toml_file *file = toml_open(path, &root, &reason, &line);
	int ret = CMD_FINE;

	if (!file) {
		struct toml_node at = { .line = line };

		heap_need(reason);
		ret = line ? wrong(path, &at, "%s", reason)
			   : message_error("cannot read limits file '%s': %s", path, reason);
		free(reason);
		free(folder);
		return ret;
	}
	for (const struct toml_node *table = root->first; table && !ret; table = table->next) {
		/* Other tables are others' matter. */
		if (strcmp(table->key, "check"))
			continue;
		if (table->type != TOML_TABLE)
			ret = wrong(path, table, "'check' is %s, expected %s", toml_type_name(table->type),
				    toml_type_name(TOML_TABLE));
		for (const struct toml_node *node = table->first; node && !ret; node = node->next)
			ret = take_key(l, o, path, folder, node);
	}
	free(folder);
	toml_close(file);
	return ret;
}

bool limits_asked_for(const struct limit_opts *o)
{
	bool asked = o->file != NULL;

	for (size_t i = 0; i < NR_SETTINGS; i++)
		asked |= option_text(o, &settings[i]) != NULL;
	return asked;
}

int limits_take(struct limits *l, const struct limit_opts *o)
{
	const char *file = o->file ? o->file : access(LIMITS_FILE, F_OK) ? NULL : LIMITS_FILE;
	char origin[64], why[256];
	int ret = CMD_FINE;

	*l = (struct limits){ .force = o->force };
	for (size_t i = 0; i < NR_SETTINGS && !ret; i++) {
		const char *text = option_text(o, &settings[i]);

		snprintf(origin, sizeof(origin), "--%s", settings[i].key);
		if (text && !take_setting(l, &settings[i], origin, text, NULL, why, sizeof(why)))
			ret = message_error("'%s': %s", origin, why);
	}
	if (!ret && file)
		ret = take_file(l, o, file);
	if (!ret && !l->nr_limits && !*l->baseline)
		ret = message_error("nothing to check: give a limit, --baseline FILE, or [check] in %s",
				    file ? file : LIMITS_FILE);
	return ret;
}

void limits_release(struct limits *l)
{
	free(l->limit);
	*l = (struct limits)LIMITS_INIT;
}

/* ---- which counts ---------------------------------------------------------------------------- */

static bool is_for(const struct limit *limit, const struct footprint_device *d)
{
	return (limit->rank < 0 || limit->rank == d->rank) && (limit->gpu < 0 || limit->gpu == d->ordinal);
}

const struct limit *limits_of(const struct limits *l, enum limit_kind kind, enum category category,
			      const struct footprint_device *d)
{
	const struct limit *found = NULL;

	for (size_t i = 0; i < l->nr_limits; i++) {
		const struct limit *limit = &l->limit[i];
		bool is_special = limit->rank >= 0 || limit->gpu >= 0;

		if (limit->kind == kind && limit->category == category && is_for(limit, d) &&
		    (!found || is_special || (found->rank < 0 && found->gpu < 0)))
			found = limit;
	}
	return found;
}

const struct limit *limits_idle(const struct limits *l, const struct footprint *f)
{
	for (size_t i = 0; i < l->nr_limits; i++) {
		bool is_used = false;

		for (uint32_t k = 0; k < f->nr_devices && !is_used; k++)
			is_used = is_for(&l->limit[i], &f->device[k]);
		if (!is_used)
			return &l->limit[i];
	}
	return NULL;
}
