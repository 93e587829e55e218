/* SPDX-License-Identifier: MIT */
/* Finding the censuses beside a trace. */
#include "analyzer/recording/censusfiles.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/basename.h"
#include "analyzer/recording/generation.h"

bool censusfiles_is_one(const char *name)
{
	size_t len = strlen(name), n = strlen(CENSUSFILES_SUFFIX);

	return len > n && !strcmp(name + len - n, CENSUSFILES_SUFFIX);
}

/* The N of BASE.N.names, BASE being `len` characters long; 0: it is no such name. */
static unsigned long number_of(const char *name, const char *base, size_t len)
{
	unsigned long number;
	char *end;

	if (strncmp(name, base, len) || name[len] != '.' || !isdigit((unsigned char)name[len + 1]))
		return 0;
	number = strtoul(name + len + 1, &end, 10);
	return strcmp(end, CENSUSFILES_SUFFIX) ? 0 : number;
}

static int by_number(const void *va, const void *vb)
{
	const struct censusfile *a = va, *b = vb;

	return (a->number > b->number) - (a->number < b->number);
}

void censusfiles_find(struct censusfiles *c, const char *trace)
{
	const char *base = basename_of(trace);
	size_t len = generation_is_trace(base) ? strlen(base) - strlen(".vtr") : 0;
	char folder[PATH_MAX], path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	*c = (struct censusfiles){ 0 };
	if (!len || (size_t)snprintf(folder, sizeof(folder), "%.*s", (int)(base - trace), trace) >= sizeof(folder))
		return;
	dir = opendir(base > trace ? folder : ".");
	while (dir && (entry = readdir(dir))) {
		unsigned long number = number_of(entry->d_name, base, len);

		if (!number || (size_t)snprintf(path, sizeof(path), "%s%s", folder, entry->d_name) >= sizeof(path))
			continue;
		c->file = heap_grow(c->file, &c->room, c->nr_files + 1, sizeof(*c->file));
		c->file[c->nr_files++] = (struct censusfile){ heap_copy(path), number };
	}
	if (dir)
		closedir(dir);
	if (c->nr_files)
		qsort(c->file, c->nr_files, sizeof(*c->file), by_number);
}

void censusfiles_release(struct censusfiles *c)
{
	for (size_t i = 0; i < c->nr_files; i++)
		free(c->file[i].path);
	free(c->file);
	*c = (struct censusfiles){ 0 };
}
