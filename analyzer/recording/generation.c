/* SPDX-License-Identifier: MIT */
/* What one generation of a recording looks like on disk. */
#include "analyzer/recording/generation.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/recording/censusfiles.h"
#include "analyzer/recording/hostmemory.h"
#include "analyzer/recording/job.h"
#include "analyzer/recording/unrecorded.h"

static bool ends_with(const char *name, const char *suffix)
{
	size_t len = strlen(name), n = strlen(suffix);

	return len > n && !strcmp(name + len - n, suffix);
}

unsigned generation_number(const char *name)
{
	char *end;
	unsigned long n;

	if (name[0] != 'g' || !isdigit((unsigned char)name[1]) || name[1] == '0')
		return 0;
	n = strtoul(name + 1, &end, 10);
	return !*end && n >= 2 && n <= UINT_MAX ? (unsigned)n : 0;
}

bool generation_is_trace(const char *name)
{
	return ends_with(name, ".vtr");
}

bool generation_is_file(const char *name)
{
	return generation_is_trace(name) || ends_with(name, ".vtr.new") || ends_with(name, ".ring") ||
	       censusfiles_is_one(name) || hostmemory_is_note(name) || unrecorded_is_file(name) || !strcmp(name, "job") || !strcmp(name, "largest");
}

int generation_join(char out[static PATH_MAX], const char *dir, const char *name)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);

	return n > 0 && n < PATH_MAX ? 0 : -1;
}

/* The first line of dir/name, without its end; false if there is none. */
static bool read_line(const char *dir, const char *name, char *line, size_t size)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	if (generation_join(path, dir, name))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, line, size - 1);
	close(fd);
	line[n > 0 ? n : 0] = 0;
	line[strcspn(line, "\n")] = 0;
	return n > 0;
}

bool generation_job(const char *dir, char job[static JOB_ID_MAX])
{
	return read_line(dir, "job", job, JOB_ID_MAX);
}

bool generation_made_by(const char *dir, const char *job)
{
	char made_by[JOB_ID_MAX];

	return generation_job(dir, made_by) && !strcmp(made_by, job);
}

unsigned generation_largest_run(const char *dir)
{
	char line[16];

	return read_line(dir, "largest", line, sizeof(line)) ? (unsigned)strtoul(line, NULL, 10) : 0;
}

void generation_set_largest_run(const char *dir, unsigned run)
{
	char path[PATH_MAX];
	int fd;

	if (generation_join(path, dir, "largest"))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	dprintf(fd, "%u\n", run);
	close(fd);
}
