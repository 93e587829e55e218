/* SPDX-License-Identifier: MIT */
/* The model file of a job: made, locked, removed. */
#include "analyzer/gpu/memorymodel.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"

#define NAME "vramtrace-model-"

static const char *folder(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir == '/' ? dir : "/tmp";
}

/* Remove those that nobody holds a lock on: their jobs were killed. Somebody else's cannot be opened. */
static void remove_stale(void)
{
	char pattern[PATH_MAX];
	glob_t found;

	if (snprintf(pattern, sizeof(pattern), "%s/" NAME "??????", folder()) >= (int)sizeof(pattern))
		return;
	if (!glob(pattern, GLOB_NOSORT, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			int fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC | O_NOFOLLOW);

			if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
				unlink(found.gl_pathv[i]);
			if (fd >= 0)
				close(fd);
		}
	}
	globfree(&found);
}

/*
 * A new file that we hold the lock of. Between its creation and its lock another job may take it for a stale
 * one: then it has no name any more, and the next one has better luck.
 */
static bool create(struct memorymodel *m)
{
	struct stat file;

	for (;;) {
		if (snprintf(m->path, sizeof(m->path), "%s/" NAME "XXXXXX", folder()) >=
		    (int)sizeof(m->path)) {
			errno = ENAMETOOLONG;
			return false;
		}
		m->fd = mkostemp(m->path, O_CLOEXEC);
		if (m->fd < 0 || flock(m->fd, LOCK_EX) || fstat(m->fd, &file))
			return false;
		if (file.st_nlink)
			return true;
		close(m->fd);
	}
}

static bool fill(const struct memorymodel *m, const struct gpufile *g)
{
	FILE *out = fopen(m->path, "we");
	bool done;

	if (!out)
		return false;
	gpufile_write_model(g, out);
	done = !ferror(out);
	return !fclose(out) && done;
}

int memorymodel_make(struct memorymodel *m, const struct gpufile *g, bool inherit)
{
	remove_stale();
	m->fd = -1;
	if (create(m) && fill(m, g) && !fcntl(m->fd, F_SETFD, inherit ? 0 : FD_CLOEXEC))
		return 0;
	message_error("cannot write '%s': %s; name another folder with TMPDIR", m->path, strerror(errno));
	memorymodel_remove(m);
	return RUN_TROUBLE;
}

void memorymodel_remove(struct memorymodel *m)
{
	if (!*m->path)
		return;
	if (m->fd >= 0) {
		unlink(m->path);
		close(m->fd);
	}
	*m->path = 0;
}
