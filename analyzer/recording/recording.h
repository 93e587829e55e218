/* SPDX-License-Identifier: MIT */
/*
 * What a RECORDING argument names: one trace, or a directory NAME.vtr with the traces of a job.
 *
 * A job that found NAME.vtr taken wrote a *generation* of its own, NAME.vtr/gN (N >= 2); the directory
 * means its newest generation, that is the one with the highest number. NAME.vtr/g1 is the first alone. Runs
 * of one repeated job are generations, too: where the newest is such a run, the directory means the largest.
 */
#ifndef VT_RECORDING_H
#define VT_RECORDING_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/recording/unrecorded.h"

/*
 * Makes a trace of a file that is none, for as long as the process lives: returns its path, which stays the function's;
 * NULL of any other file; or NULL after writing one sentence into why[size], which is empty before. NULL here, until
 * somebody above knows such files.
 */
extern const char *(*recording_convert)(const char *path, char *why, size_t size);

struct recording {
	char *path;    /* as the user gave it */
	char *folder;  /* where the traces lie; NULL when the argument is a single trace */
	char **trace;  /* paths, sorted by name */
	size_t nr_traces, traces_room;
	struct unrecorded *unrecorded; /* processes that could not record, as they have left it */
	size_t nr_unrecorded;
	char **run;            /* the runs of a repeated job, as recording_open() takes them; else none */
	unsigned *run_number;  /* of each: 1 is the first */
	size_t nr_runs;
	unsigned run_shown;    /* the number of the run whose traces these are; 0 = it is none */
	bool is_converted;     /* the single trace was made of a file that is none (recording_convert) */
	unsigned runs_wanted;  /* how many there were to be; some may have no recording */
};

/*
 * Find the traces. Returns 0, or -1 after writing one sentence for the user into why[size].
 * recording_release() is needed either way.
 */
int recording_open(struct recording *r, const char *path, char *why, size_t size);
void recording_release(struct recording *r);

/* What people are to be told of a trace: its path, or that of the file that it was made of. */
const char *recording_trace_name(const struct recording *r, size_t trace);

/*
 * Show fn the folder of every generation that the recording's path holds, itself first, with its number; of a path
 * like NAME.vtr/g1, which no folder has, the first alone. Ends when fn returns other than 0, and returns that, or an
 * errno. Only of a recording that is a folder.
 */
int recording_each_generation(const struct recording *r,
			      int (*fn)(void *context, const char *folder, unsigned number), void *context);

#endif
