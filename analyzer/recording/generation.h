/* SPDX-License-Identifier: MIT */
/*
 * What one *generation* of a recording looks like on disk: a folder with a file `job` (the id of the job that
 * made it), traces (*.vtr) and, while a process runs or after a crash, ring files (*.ring). The recording's
 * own folder is the first generation; later ones are its subfolders g2, g3, ... Each run of a repeated job is a
 * generation; a file `largest` in the latest says which of the runs so far reached the highest peak. Of a program that
 * failed there may be notes about the host's memory (*.host, hostmemory.h), beside a trace censuses of its process
 * (*.names, censusfiles.h).
 */
#ifndef VT_GENERATION_H
#define VT_GENERATION_H

#include <limits.h>
#include <stdbool.h>

#include "analyzer/recording/job.h"

/* The N of a generation's folder name gN, N >= 2; 0 if it is none. */
unsigned generation_number(const char *name);

/* Is this the name of a trace? Of any file that belongs to a generation? */
bool generation_is_trace(const char *name);
bool generation_is_file(const char *name);

/* The id of the job that made the generation dir; false when it has no readable `job` file. */
bool generation_job(const char *dir, char job[static JOB_ID_MAX]);

/* Is dir a generation that the job made? false also when it has no readable `job` file. */
bool generation_made_by(const char *dir, const char *job);

/* Read and write what dir says of the largest run; 0 = nothing, and trouble in writing is ignored. */
unsigned generation_largest_run(const char *dir);
void generation_set_largest_run(const char *dir, unsigned run);

/* dir/name into out; -1 if it does not fit. */
int generation_join(char out[static PATH_MAX], const char *dir, const char *name);

#endif
