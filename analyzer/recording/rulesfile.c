/* SPDX-License-Identifier: MIT */
/* Finding and reading the user's rules; see rulesfile.h. */
#include "analyzer/recording/rulesfile.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"

int rulesfile_split(char *line, char **word, int max)
{
	char *rest = NULL, *w;
	int nr = 0;

	line[strcspn(line, "#\r\n")] = 0;
	for (w = strtok_r(line, " \t\v\f", &rest); w; w = strtok_r(NULL, " \t\v\f", &rest)) {
		if (nr < max)
			word[nr] = w;
		nr++;
	}
	return nr;
}

/* "" = none. *is_named: it was asked for, and must be there. */
static const char *file_name(const char *variable, const char *name, char buf[static PATH_MAX], bool *is_named)
{
	const char *named = getenv(variable), *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	*is_named = named && *named;
	if (*is_named)
		return named;
	if (config && *config)
		snprintf(buf, PATH_MAX, "%s/vramtrace/%s", config, name);
	else if (home && *home)
		snprintf(buf, PATH_MAX, "%s/.config/vramtrace/%s", home, name);
	else
		*buf = 0;
	return buf;
}

static int read_rules(const struct rulesfile *rules)
{
	char buf[PATH_MAX], *line = NULL;
	const char *reason = NULL, *path;
	size_t size = 0, number = 0;
	bool is_named;
	int err = 0;
	FILE *f;

	path = file_name(rules->variable, rules->name, buf, &is_named);
	f = *path ? fopen(path, "re") : NULL;
	if (!f && !is_named && (!*path || errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!f)
		return message_error("cannot open '%s' (%s): %s", path, rules->variable, strerror(errno));
	while (!reason && getline(&line, &size, f) >= 0) {
		number++;
		reason = rules->add(line);
	}
	if (reason)
		err = message_error("'%s', line %zu: %s", path, number, reason);
	else if (ferror(f))
		err = message_error("cannot read '%s' (%s): %s", path, rules->variable, strerror(errno));
	free(line);
	fclose(f);
	return err;
}

int rulesfile_load(struct rulesfile *rules)
{
	if (!rules->is_read)
		rules->status = read_rules(rules);
	rules->is_read = true;
	return rules->status;
}
