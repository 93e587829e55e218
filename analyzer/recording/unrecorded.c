/* SPDX-License-Identifier: MIT */
/* Processes that did not record; see unrecorded.h. */
#include "analyzer/recording/unrecorded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/generation.h"
#include "tracefmt/tracefmt.h"

#define JOB_LINES_MAX 64

/* Clauses that follow "...: "; what failed says its errno itself. */
static const char *const clauses[TFMT_NR_WHY] = {
	[TFMT_WHY_NONE] = "for a reason that this version does not know",
	[TFMT_WHY_THREAD] = "there was no thread to write with",
	[TFMT_WHY_MEMORY] = "there was no memory, or no address space, for the recorder",
	[TFMT_WHY_FOLDER] = "the recording's folder could not be made or written",
	[TFMT_WHY_NOT_OURS] = "the recording's folder belongs to somebody else, or others may write into it",
	[TFMT_WHY_TRACE] = "its trace could not be made",
	[TFMT_WHY_REMOVED] = "its files were removed while it recorded, and could not be made anew",
	[TFMT_WHY_SLOW] = "it had ended before its trace could be opened",
};

bool unrecorded_is_file(const char *name)
{
	size_t len = strlen(name), n = strlen(TFMT_WHY_SUFFIX);

	return len > n && !strcmp(name + len - n, TFMT_WHY_SUFFIX);
}

/* HOST.PID.START.why: the host may have points, too. */
static uint32_t pid_of(const char *name)
{
	const char *end = name + strlen(name);

	for (int points = 0; end > name; end--)
		if (end[-1] == '.' && ++points == 3)
			return (uint32_t)strtoul(end, NULL, 10);
	return 0;
}

static void take_line(struct unrecorded *u, const char *line)
{
	if (!strncmp(line, "why ", 4))
		u->why = tfmt_why_named(line + 4);
	else if (!strncmp(line, "errno ", 6))
		u->error = atoi(line + 6);
	else if (!strncmp(line, "unrecorded ", 11))
		u->nr = strtoull(line + 11, NULL, 10);
	else if (!strncmp(line, "program ", 8))
		snprintf(u->program, sizeof(u->program), "%s", line + 8);
}

static void read_file(struct unrecorded *u, const char *folder, const char *name)
{
	char path[PATH_MAX], text[1024], *rest = text, *line;
	ssize_t n;
	int fd;

	*u = (struct unrecorded){ .pid = pid_of(name) };
	if (generation_join(path, folder, name))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	while ((line = strsep(&rest, "\n")))
		take_line(u, line);
}

static int is_wanted(const struct dirent *entry)
{
	return unrecorded_is_file(entry->d_name);
}

/* A line of the job's file, where no file of its own could be made: "PID WHY ERRNO UNRECORDED PROGRAM". */
static bool read_job_line(struct unrecorded *u, const char *line)
{
	char why[24];

	*u = (struct unrecorded){ 0 };
	if (sscanf(line, "%" SCNu32 " %23s %d %" SCNu64 " %63[^\n]", &u->pid, why, &u->error, &u->nr, u->program) < 4)
		return false;
	u->why = tfmt_why_named(why);
	return true;
}

/* What follows the job's id. */
static size_t read_job(struct unrecorded *list, size_t max, const char *folder)
{
	char path[PATH_MAX], line[512];
	size_t nr = 0, number = 0;
	FILE *f = generation_join(path, folder, "job") ? NULL : fopen(path, "re");

	while (f && nr < max && fgets(line, sizeof(line), f))
		if (number++ && read_job_line(&list[nr], line))
			nr++;
	if (f)
		fclose(f);
	return nr;
}

size_t unrecorded_read(struct unrecorded **list, const char *folder)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, is_wanted, alphasort);
	size_t nr = 0, max = (n > 0 ? (size_t)n : 0) + JOB_LINES_MAX;

	*list = heap_alloc(max, sizeof(**list));
	for (int i = 0; i < n; i++) {
		read_file(&(*list)[nr++], folder, entries[i]->d_name);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return nr + read_job(*list + nr, JOB_LINES_MAX, folder);
}

const char *unrecorded_text(char buf[static UNRECORDED_TEXT_MAX], const struct unrecorded *u)
{
	size_t size = UNRECORDED_TEXT_MAX, n;

	n = (size_t)snprintf(buf, size, "pid %" PRIu32, u->pid);
	if (u->program[0])
		n += (size_t)snprintf(buf + n, size - n, " ('%s')", u->program);
	n += (size_t)snprintf(buf + n, size - n, " did not record its use of GPU memory: %s",
			      clauses[u->why < TFMT_NR_WHY ? u->why : TFMT_WHY_NONE]);
	if (u->error > 0)
		n += (size_t)snprintf(buf + n, size - n, " (%s)", strerror(u->error));
	if (u->nr)
		snprintf(buf + n, size - n, "; %" PRIu64 " event%s missing", u->nr, u->nr == 1 ? " is" : "s are");
	return buf;
}
