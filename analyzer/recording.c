/* SPDX-License-Identifier: MIT */
/* Resolving a RECORDING argument to the traces it holds. */
#include "analyzer/recording.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/generation.h"

static int failed(char *why, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int failed(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return -1;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static char *join(const char *folder, const char *name)
{
	char *path;
	size_t len = strlen(folder);

	while (len > 1 && folder[len - 1] == '/')
		len--;
	return asprintf(&path, "%.*s/%s", (int)len, folder, name) < 0 ? NULL : path;
}

/* Take the newest generation in `path` as the folder, or path itself. Returns 0, or an errno. */
static int find_generation(struct recording *r, const char *path)
{
	unsigned newest = 0;
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir)
		return errno;
	r->folder = strdup(path);
	while ((entry = readdir(dir))) {
		unsigned number = generation_number(entry->d_name);
		char *candidate;

		if (number <= newest)
			continue;
		candidate = join(path, entry->d_name);
		if (candidate && is_folder(candidate)) {
			free(r->folder);
			r->folder = candidate;
			newest = number;
		} else {
			free(candidate);
		}
	}
	closedir(dir);
	return r->folder ? 0 : ENOMEM;
}

static int add_trace(struct recording *r, char *path)
{
	char **trace = path ? realloc(r->trace, (r->nr_traces + 1) * sizeof(*trace)) : NULL;

	if (!trace) {
		free(path);
		return ENOMEM;
	}
	r->trace = trace;
	r->trace[r->nr_traces++] = path;
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Collect the folder's *.vtr files. Returns 0, or an errno. */
static int find_traces(struct recording *r)
{
	struct dirent *entry;
	DIR *dir = opendir(r->folder);
	int err = 0;

	if (!dir)
		return errno;
	while (!err && (entry = readdir(dir))) {
		char *path;

		if (!generation_is_trace(entry->d_name))
			continue;
		path = join(r->folder, entry->d_name);
		if (path && is_folder(path))
			free(path);
		else
			err = add_trace(r, path);
	}
	closedir(dir);
	if (r->nr_traces)
		qsort(r->trace, r->nr_traces, sizeof(*r->trace), compare_paths);
	return err;
}

int recording_open(struct recording *r, const char *path, char *why, size_t size)
{
	struct stat st;
	int err;

	*r = (struct recording){ .path = strdup(path) };
	if (!r->path)
		return failed(why, size, "cannot open '%s': %s", path, strerror(ENOMEM));
	if (stat(path, &st))
		return failed(why, size, "cannot open '%s': %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		err = add_trace(r, strdup(path));
	} else {
		err = find_generation(r, path);
		if (!err)
			err = find_traces(r);
	}
	if (err)
		return failed(why, size, "cannot open '%s': %s", path, strerror(err));
	if (!r->nr_traces)
		return failed(why, size,
			      "'%s' holds no trace; give a recording made by 'vramtrace run' (NAME.vtr) or "
			      "one trace in it",
			      path);
	return 0;
}

void recording_release(struct recording *r)
{
	for (size_t i = 0; i < r->nr_traces; i++)
		free(r->trace[i]);
	free(r->trace);
	free(r->folder);
	free(r->path);
	*r = (struct recording){ 0 };
}
