/* SPDX-License-Identifier: MIT */
/*
 * The censuses of a process: files HOST.PID.START.N.names beside its trace HOST.PID.START.vtr, N = 1, 2, ..., which tell
 * by what names the program held its tensors (tracefmt/FORMAT.md, section 12).
 */
#ifndef VT_CENSUSFILES_H
#define VT_CENSUSFILES_H

#include <stdbool.h>
#include <stddef.h>

#define CENSUSFILES_SUFFIX ".names"

struct censusfile {
	char *path;
	unsigned long number; /* N of its name */
};

struct censusfiles {
	struct censusfile *file; /* by number */
	size_t nr_files, room;
};

/* Is this the name of a census? */
bool censusfiles_is_one(const char *name);

/* Those beside a trace; none beside what is no file NAME.vtr. *c is to be released. */
void censusfiles_find(struct censusfiles *c, const char *trace);
void censusfiles_release(struct censusfiles *c);

#endif
