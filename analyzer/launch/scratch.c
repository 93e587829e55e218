/* SPDX-License-Identifier: MIT */
/* A folder that is gone when the command is. */
#include "analyzer/launch/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/message.h"

int scratch_make(char path[static PATH_MAX], const char *what)
{
	const char *parent = getenv("TMPDIR");
	int ret = 0;

	if (snprintf(path, PATH_MAX, "%s/vramtrace-%s-XXXXXX", parent && *parent ? parent : "/tmp", what) >=
	    PATH_MAX - SCRATCH_ROOM)
		ret = message_error("the path in TMPDIR is too long");
	else if (!mkdtemp(path))
		ret = message_error("cannot make '%s': %s", path, strerror(errno));
	if (ret)
		*path = 0;
	return ret;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void scratch_remove(const char *path)
{
	if (*path)
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
