/* SPDX-License-Identifier: MIT */
/* Resolving a RECORDING argument to the traces it holds. */
#include "analyzer/recording/recording.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/generation.h"
#include "analyzer/recording/leftover.h"

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
	return heap_need(asprintf(&path, "%.*s/%s", (int)len, folder, name) < 0 ? NULL : path);
}

/* Nor are pipes looked for in folders: whoever names one of them waits for it. */
static bool holds_no_trace(const char *path)
{
	struct stat st;

	return !stat(path, &st) && (S_ISDIR(st.st_mode) || S_ISFIFO(st.st_mode));
}

/* Every generation in `path`, itself included, is shown to fn with its number. Returns 0, or an errno. */
static int each_generation(const char *path, int (*fn)(void *context, const char *folder, unsigned number),
			   void *context)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	int err;

	if (!dir)
		return errno;
	err = fn(context, path, 1);
	while (!err && (entry = readdir(dir))) {
		unsigned number = generation_number(entry->d_name);
		char *folder = number ? join(path, entry->d_name) : NULL;

		if (folder && is_folder(folder))
			err = fn(context, folder, number);
		free(folder);
	}
	closedir(dir);
	return err;
}

struct newest {
	char *folder;
	unsigned number;
};

static int take_newer(void *context, const char *folder, unsigned number)
{
	struct newest *newest = context;

	if (number < newest->number)
		return 0;
	free(newest->folder);
	*newest = (struct newest){ heap_copy(folder), number };
	return 0;
}

/* The recording's own folder, which NAME.vtr/g1 means: there is no folder of that name. */
static bool is_first_generation(const char *path, char *own, size_t size)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (len < 4 || len > size || memcmp(path + len - 3, "/g1", 3) != 0)
		return false;
	snprintf(own, size, "%.*s", (int)len - 3, path);
	return is_folder(own);
}

/* ---- runs of a repeated job ------------------------------------------------------------------- */

struct siblings {
	struct recording *recording;
	char job[JOB_ID_MAX]; /* of one of them */
	size_t len;           /* of what they have in common */
};

static int take_sibling(void *context, const char *folder, unsigned number)
{
	struct siblings *s = context;
	struct recording *r = s->recording;
	unsigned run, of;
	char job[JOB_ID_MAX];
	size_t len, at;

	if (!generation_job(folder, job) || !job_run(job, &len, &run, &of) || of != r->runs_wanted ||
	    len != s->len || memcmp(job, s->job, len) != 0)
		return 0;
	r->run = heap_need(realloc(r->run, (r->nr_runs + 1) * sizeof(*r->run)));
	r->run_number = heap_need(realloc(r->run_number, (r->nr_runs + 1) * sizeof(*r->run_number)));
	for (at = r->nr_runs++; at > 0 && r->run_number[at - 1] > run; at--) {
		r->run[at] = r->run[at - 1];
		r->run_number[at] = r->run_number[at - 1];
	}
	r->run[at] = number == 1 ? join(folder, "g1") : heap_copy(folder);
	r->run_number[at] = run;
	return 0;
}

/* The newest generation is a run of several: find the others, and take the largest instead. */
static int find_runs(struct recording *r, const char *path)
{
	struct siblings s = { .recording = r };
	char own[PATH_MAX];
	unsigned largest;
	int err;

	if (!generation_job(r->folder, s.job) || !job_run(s.job, &s.len, &r->run_shown, &r->runs_wanted))
		return 0;
	err = each_generation(path, take_sibling, &s);
	largest = generation_largest_run(r->folder);
	for (size_t i = 0; !err && i < r->nr_runs; i++) {
		if (r->run_number[i] != largest)
			continue;
		free(r->folder);
		r->folder = heap_copy(is_first_generation(r->run[i], own, sizeof(own)) ? own : r->run[i]);
		r->run_shown = largest;
	}
	return err;
}

/* Take the folder that `path` means: its newest generation, or the largest run. Returns 0, or an errno. */
static int find_generation(struct recording *r, const char *path)
{
	struct newest newest = { 0 };
	int err = each_generation(path, take_newer, &newest);

	r->folder = newest.folder;
	return err ? err : find_runs(r, path);
}

/* `path` becomes the recording's. */
static void add_trace(struct recording *r, char *path)
{
	r->trace = heap_grow(r->trace, &r->traces_room, r->nr_traces + 1, sizeof(*r->trace));
	r->trace[r->nr_traces++] = path;
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

	if (!dir)
		return errno;
	while ((entry = readdir(dir))) {
		char *path;

		if (!generation_is_trace(entry->d_name))
			continue;
		path = join(r->folder, entry->d_name);
		if (holds_no_trace(path))
			free(path);
		else
			add_trace(r, path);
	}
	closedir(dir);
	if (r->nr_traces)
		qsort(r->trace, r->nr_traces, sizeof(*r->trace), compare_paths);
	return 0;
}

const char *(*recording_convert)(const char *path, char *why, size_t size);

/* The single trace that a path means. Returns 0, or why[] has the reason. */
static int take_file(struct recording *r, const char *path, char *why, size_t size)
{
	const char *converted;

	*why = 0;
	converted = recording_convert ? recording_convert(path, why, size) : NULL;
	if (*why)
		return -1;
	add_trace(r, heap_copy(converted ? converted : path));
	r->is_converted = converted;
	return 0;
}

const char *recording_trace_name(const struct recording *r, size_t trace)
{
	return r->is_converted ? r->path : r->trace[trace];
}

int recording_open(struct recording *r, const char *path, char *why, size_t size)
{
	char own[PATH_MAX], text[UNRECORDED_TEXT_MAX];
	struct stat st;
	int err;

	if (!strcmp(path, "-"))
		path = "/dev/stdin";
	*r = (struct recording){ .path = heap_copy(path) };
	err = stat(path, &st) ? errno : 0;
	if (err == ENOENT && is_first_generation(path, own, sizeof(own))) {
		r->folder = heap_copy(own);
		err = find_traces(r);
	} else if (!err && !S_ISDIR(st.st_mode)) {
		if (take_file(r, path, why, size))
			return -1;
	} else if (!err) {
		err = find_generation(r, path);
		if (!err)
			err = find_traces(r);
	}
	if (err)
		return failed(why, size, "cannot open '%s': %s", path, strerror(err));
	if (r->folder)
		r->nr_unrecorded = unrecorded_read(&r->unrecorded, r->folder);
	if (!r->nr_traces && r->nr_unrecorded)
		return failed(why, size, "'%s' holds no trace: %s", path, unrecorded_text(text, r->unrecorded));
	if (!r->nr_traces)
		return failed(why, size,
			      "'%s' holds no trace; give a recording made by 'vramtrace run' (NAME.vtr) or "
			      "one trace in it",
			      path);
	for (size_t i = 0; i < r->nr_traces; i++)
		leftover_complete(r->trace[i]);
	return 0;
}

int recording_each_generation(const struct recording *r,
			      int (*fn)(void *context, const char *folder, unsigned number), void *context)
{
	return is_folder(r->path) ? each_generation(r->path, fn, context) : fn(context, r->folder, 1);
}

void recording_release(struct recording *r)
{
	for (size_t i = 0; i < r->nr_traces; i++)
		free(r->trace[i]);
	for (size_t i = 0; i < r->nr_runs; i++)
		free(r->run[i]);
	free(r->trace);
	free(r->run);
	free(r->run_number);
	free(r->unrecorded);
	free(r->folder);
	free(r->path);
	*r = (struct recording){ 0 };
}
