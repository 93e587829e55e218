/* SPDX-License-Identifier: MIT */
/* Commands in processes of their own. */
#include "analyzer/picture/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/base/progress.h"

#define PREFIX "vramtrace: "

static _Noreturn void become(const struct document *d)
{
	const char *argv[DOCUMENTS_ARGUMENTS + 1] = { NULL };
	int argc = 0, null = open("/dev/null", O_RDONLY | O_CLOEXEC), status;

	dup2(null, STDIN_FILENO);
	dup2(d->out, STDOUT_FILENO);
	dup2(d->err, STDERR_FILENO);
	while (argc < DOCUMENTS_ARGUMENTS && d->argument[argc]) {
		argv[argc] = d->argument[argc];
		argc++;
	}
	status = d->run(argc, argv);
	fflush(stdout);
	fflush(stderr);
	_exit(ferror(stdout) ? 2 : status);
}

/* Files in memory: a command need not wait until somebody reads what it prints. */
static void begin(struct document *d)
{
	d->out = memfd_create("vramtrace-result", MFD_CLOEXEC);
	d->err = memfd_create("vramtrace-messages", MFD_CLOEXEC);
	d->process = d->out < 0 || d->err < 0 ? -1 : fork();
	if (!d->process)
		become(d);
	if (d->process < 0) {
		d->message = heap_copy(strerror(errno));
		d->status = 2;
	}
}

/* All of a file in memory, terminated. The caller's. */
static char *read_all(int fd, size_t *len)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = heap_alloc(size > 0 ? (size_t)size + 1 : 1, 1);
	ssize_t got;

	*len = 0;
	while (size > 0 && *len < (size_t)size && (got = pread(fd, text + *len, (size_t)size - *len, (off_t)*len)) > 0)
		*len += (size_t)got;
	return text;
}

/* The same JSON without blanks; NULL if it is none. Numbers keep the digits that they have. */
static char *compact(const char *text, size_t len)
{
	struct json_tokener *parser = heap_need(json_tokener_new_ex(64));
	struct json_object *o = len < INT32_MAX ? json_tokener_parse_ex(parser, text, (int)len) : NULL;
	const int flags = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	char *copy = o ? heap_copy(json_object_to_json_string_ext(o, flags)) : NULL;

	json_object_put(o);
	json_tokener_free(parser);
	return copy;
}

/* Its lines in one, each once and without the program's name. */
static char *messages(char *text)
{
	char *all = heap_alloc(strlen(text) + 1, 1), *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, PREFIX, strlen(PREFIX)))
			line += strlen(PREFIX);
		if (strstr(all, line))
			continue;
		if (*all)
			strcat(all, "; ");
		strcat(all, line);
	}
	return all;
}

static void finish(struct document *d, int status)
{
	size_t len;
	char *text = read_all(d->out, &len), *said;

	d->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	d->text = len ? compact(text, len) : NULL;
	free(text);
	said = read_all(d->err, &len);
	d->message = messages(said);
	free(said);
	close(d->out);
	close(d->err);
}

static void wait_for_one(struct document *d, size_t nr)
{
	int status;
	pid_t process = waitpid(-1, &status, 0);

	for (size_t i = 0; process > 0 && i < nr; i++)
		if (d[i].process == process)
			finish(&d[i], status);
}

void documents_run(struct document *d, size_t nr)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t running = 0, begun = 0, done = 0;

	progress_begin("reading");
	fflush(stdout);
	while (done < nr) {
		if (begun < nr && running < (size_t)(processors > 0 ? processors : 1)) {
			begin(&d[begun]);
			running += d[begun].process > 0;
			done += d[begun].process < 0;
			begun++;
			continue;
		}
		progress_update(done, nr);
		wait_for_one(d, nr);
		running--;
		done++;
	}
	progress_end();
}

void documents_release(struct document *d, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		free(d[i].text);
		free(d[i].message);
	}
}
