/* SPDX-License-Identifier: MIT */
/* Asking a recorder for a census, by files. */
#include "analyzer/launch/askcensus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/recording/censusfiles.h"
#include "tracefmt/tracefmt.h"

#define PAUSE_NS 20000000
#define TAKEN_PAUSES 500   /* until a recorder that is at work has looked: ten seconds */
#define BEGUN_PAUSES 250   /* until the copy has made its file */
#define WRITTEN_PAUSES 3000

static bool has_suffix(const char *text, const char *suffix)
{
	size_t len = strlen(text), n = strlen(suffix);

	return len > n && !strcmp(text + len - n, suffix);
}

/* A descriptor of this thread that leads to a trace. */
static bool find_among(char trace[PATH_MAX], const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir)) != NULL) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, trace, PATH_MAX - 1);
		struct stat st;

		if (n <= 0 || fstatat(dirfd(dir), entry->d_name, &st, 0) || !S_ISREG(st.st_mode))
			continue; /* a recording's folder may end in .vtr, too */
		trace[n] = 0;
		found = has_suffix(trace, ".vtr");
	}
	if (dir)
		closedir(dir);
	return found;
}

int askcensus_find(char trace[PATH_MAX], long pid)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	int denied = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? ESRCH : errno;
	while (!found && (entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%ld/task/%.32s/fd", pid, entry->d_name);
		if (entry->d_name[0] == '.')
			continue;
		found = find_among(trace, path);
		if (!found && access(path, R_OK))
			denied = EACCES;
	}
	closedir(dir);
	return found ? 0 : denied ? denied : ENOENT;
}

static void pause_once(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
}

static bool wait_until_gone(const char *path)
{
	for (int i = 0; i < TAKEN_PAUSES; i++) {
		if (access(path, F_OK))
			return true;
		pause_once();
	}
	return false;
}

/* The census that is newer than this number; false: there is none. */
static bool find_newer(char census[PATH_MAX], const char *trace, unsigned long than)
{
	struct censusfiles files;
	bool found;

	censusfiles_find(&files, trace);
	found = files.nr_files && files.file[files.nr_files - 1].number > than;
	if (found)
		snprintf(census, PATH_MAX, "%s", files.file[files.nr_files - 1].path);
	censusfiles_release(&files);
	return found;
}

static unsigned long latest_of(const char *trace)
{
	struct censusfiles files;
	unsigned long number;

	censusfiles_find(&files, trace);
	number = files.nr_files ? files.file[files.nr_files - 1].number : 0;
	censusfiles_release(&files);
	return number;
}

/* Its copy has said all. */
static bool is_written(const char *path)
{
	struct tfmt_census *c;
	bool is_whole = !tfmt_census_open(&c, path);

	if (!is_whole)
		return false;
	is_whole = tfmt_census_facts(c)->flags != 0;
	tfmt_census_close(c);
	return is_whole;
}

enum askcensus_end askcensus(char census[PATH_MAX], const char *trace)
{
	unsigned long before = latest_of(trace);
	char question[PATH_MAX];
	int fd;

	snprintf(question, sizeof(question), "%.*s.ask", (int)strlen(trace) - 4, trace);
	fd = open(question, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return ASKCENSUS_CANNOT_ASK;
	close(fd);
	if (!wait_until_gone(question)) {
		unlink(question);
		return ASKCENSUS_NO_ANSWER;
	}
	for (int i = 0; i < BEGUN_PAUSES && !find_newer(census, trace, before); i++)
		pause_once();
	if (!find_newer(census, trace, before))
		return ASKCENSUS_REFUSED;
	for (int i = 0; i < WRITTEN_PAUSES && !is_written(census); i++)
		pause_once();
	return is_written(census) ? ASKCENSUS_DONE : ASKCENSUS_REFUSED;
}
