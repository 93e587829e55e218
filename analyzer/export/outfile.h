/* SPDX-License-Identifier: MIT */
/*
 * Where a result goes: to stdout, or to a file that appears only when it is whole.
 *
 * A file is written beside the one that it is to become, under another name, and takes its place when it is closed. If
 * writing fails, or the process is ended by SIGINT, SIGTERM or SIGHUP, what was written is removed, and a file that was
 * there before is as it was. What is no regular file, as /dev/null or a pipe, is written to directly. One at a time.
 */
#ifndef VT_OUTFILE_H
#define VT_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile {
	FILE *stream;     /* where to write; NULL if `needs_path` was asked for */
	const char *path; /* with `needs_path`: of an empty file that is to be filled */

	/* private */
	const char *name; /* as the user gave it; NULL = stdout */
	char *target, *beside;
};

/*
 * Begin; name NULL is stdout. With `needs_path` the file is filled by its path, also for stdout. Returns CMD_FINE, or
 * CMD_TROUBLE after a message; then nothing is to be closed.
 */
int outfile_open(struct outfile *f, const char *name, bool needs_path);

/*
 * End: what was written becomes the file if `is_good`, else it is removed. Returns CMD_FINE, or CMD_TROUBLE after a
 * message: it could not be written, or it was not good.
 */
int outfile_close(struct outfile *f, bool is_good);

#endif
