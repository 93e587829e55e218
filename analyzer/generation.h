/* SPDX-License-Identifier: MIT */
/*
 * What one *generation* of a recording looks like on disk: a folder with a file `job` (the id of the job that
 * made it), traces (*.vtr) and, while a process runs or after a crash, ring files (*.ring). The recording's
 * own folder is the first generation; later ones are its subfolders g2, g3, ...
 */
#ifndef VT_GENERATION_H
#define VT_GENERATION_H

#include <limits.h>
#include <stdbool.h>

/* The N of a generation's folder name gN, N >= 2; 0 if it is none. */
unsigned generation_number(const char *name);

/* Is this the name of a trace? Of any file that belongs to a generation? */
bool generation_is_trace(const char *name);
bool generation_is_file(const char *name);

/* Is dir a generation that the job made? false also when it has no readable `job` file. */
bool generation_made_by(const char *dir, const char *job);

/* dir/name into out; -1 if it does not fit. */
int generation_join(char out[static PATH_MAX], const char *dir, const char *name);

#endif
