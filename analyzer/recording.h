/* SPDX-License-Identifier: MIT */
/*
 * What a RECORDING argument names: one trace, or a directory NAME.vtr with the traces of a job.
 *
 * A job that found NAME.vtr taken wrote a *generation* of its own, NAME.vtr/gN (N >= 2); the directory
 * means its newest generation, that is the one with the highest number.
 */
#ifndef VT_RECORDING_H
#define VT_RECORDING_H

#include <stddef.h>

struct recording {
	char *path;    /* as the user gave it */
	char *folder;  /* where the traces lie; NULL when the argument is a single trace */
	char **trace;  /* paths, sorted by name */
	size_t nr_traces;
};

/*
 * Find the traces. Returns 0, or -1 after writing one sentence for the user into why[size].
 * recording_release() is needed either way.
 */
int recording_open(struct recording *r, const char *path, char *why, size_t size);
void recording_release(struct recording *r);

#endif
