/* SPDX-License-Identifier: MIT */
/* Naming and finding the recording of a run. */
#include "analyzer/launch/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/recording/generation.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* Append bounded; false when it does not fit. */
static bool append(char *out, size_t size, const char *text)
{
	size_t used = strlen(out), len = strlen(text);

	if (used + len >= size)
		return false;
	memcpy(out + used, text, len + 1);
	return true;
}

static bool expand(struct output *o, char *out, size_t size, const char *pattern, pid_t pid)
{
	char host[256] = "", number[16];
	bool fits = true;

	out[0] = 0;
	job_host(host, sizeof(host));
	snprintf(number, sizeof(number), "%d", (int)pid);
	for (const char *p = pattern; *p && fits; p++) {
		char literal[] = { *p, 0 };

		if (*p != '%') {
			fits = append(out, size, literal);
			continue;
		}
		switch (p[1]) {
		case 'p':
			o->is_per_process = true;
			fits = append(out, size, number);
			break;
		case 'h':
			fits = append(out, size, host);
			break;
		case 'j':
			fits = append(out, size, o->job);
			break;
		case 'r':
			fits = append(out, size, job_rank());
			break;
		case '%':
			fits = append(out, size, "%");
			break;
		default:
			fits = append(out, size, literal);
			continue;
		}
		p++;
	}
	return fits;
}

void output_escape(char *out, const char *name)
{
	for (; *name; name++) {
		if (*name == '%')
			*out++ = '%';
		*out++ = *name;
	}
	*out = 0;
}

int output_name(struct output *o, const char *pattern, const char *const *argv, pid_t pid)
{
	char name[PATH_MAX] = "", program[256];
	bool fits = true;
	size_t len;

	o->path[0] = 0;
	if (pattern) {
		fits = expand(o, name, sizeof(name), pattern, pid);
	} else {
		job_program_name(argv, program, sizeof(program));
		snprintf(name, sizeof(name), "vramtrace-%s-%s.vtr", program, o->job);
	}
	if (!name[0]) {
		message_error("the name of the output is empty; give a name to '-o'");
		return RUN_TROUBLE;
	}
	if (name[0] != '/') {
		if (!getcwd(o->path, sizeof(o->path))) {
			message_error("cannot find the working directory: %s; give '-o' an absolute path",
				      strerror(errno));
			return RUN_TROUBLE;
		}
		fits = fits && append(o->path, sizeof(o->path), strcmp(o->path, "/") ? "/" : "");
	}
	fits = fits && append(o->path, sizeof(o->path), name);
	if (!fits) {
		message_error(
			"the name of the output is longer than %d bytes; choose a shorter one with '-o'",
			PATH_MAX);
		return RUN_TROUBLE;
	}
	for (len = strlen(o->path); len > 1 && o->path[len - 1] == '/'; len--)
		o->path[len - 1] = 0;
	return 0;
}

/* ---- finding it again ------------------------------------------------------------------------ */

static int is_generation(const struct dirent *entry)
{
	return generation_number(entry->d_name) != 0;
}

bool output_find(const struct output *o, char dir[static PATH_MAX])
{
	struct dirent **entries;
	unsigned newest = generation_made_by(o->path, o->job) ? 1 : 0;
	int n = scandir(o->path, &entries, is_generation, NULL);

	snprintf(dir, PATH_MAX, "%s", o->path);
	for (int i = 0; i < n; i++) {
		unsigned number = generation_number(entries[i]->d_name);
		char path[PATH_MAX];

		if (number > newest && !generation_join(path, o->path, entries[i]->d_name) &&
		    generation_made_by(path, o->job)) {
			newest = number;
			memcpy(dir, path, sizeof(path));
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return newest != 0;
}

uint64_t output_bytes(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	uint64_t total = 0;
	struct stat st;

	while (d && (entry = readdir(d))) {
		if (generation_is_file(entry->d_name) &&
		    !fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			total += (uint64_t)st.st_size;
	}
	if (d)
		closedir(d);
	return total;
}

static int entry_is_trace(const struct dirent *entry)
{
	return generation_is_trace(entry->d_name);
}

void output_each_trace(const char *dir, void (*fn)(const char *path, void *context), void *context)
{
	struct dirent **entries;
	int n = scandir(dir, &entries, entry_is_trace, alphasort);

	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		if (!generation_join(path, dir, entries[i]->d_name))
			fn(path, context);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

bool output_trace_is_of(const char *path, pid_t pid)
{
	const char *name = strrchr(path, '/');
	char host[256] = "";
	size_t len;

	name = name ? name + 1 : path;
	job_host(host, sizeof(host));
	len = strlen(host);
	return !strncmp(name, host, len) && name[len] == '.' &&
	       (!pid || strtol(name + len + 1, NULL, 10) == pid);
}
