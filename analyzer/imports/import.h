/* SPDX-License-Identifier: MIT */
/* Recordings made of files of other tools. */
#ifndef VT_IMPORT_H
#define VT_IMPORT_H

#include <stddef.h>
#include <stdint.h>

struct import_result {
	uint64_t nr_events;
	const char *kind;        /* "pytorch_snapshot", "rmm_log" or "pytorch_profile" */
	uint64_t nr_unexplained; /* blocks and segments that come or go without an entry that says so */
	char trace[64];          /* name of the trace in the recording's folder */
};

/*
 * Make a recording of a PyTorch memory snapshot, of a log of RMM's or of a trace of PyTorch's profiler, in the new folder
 * `out`. Returns 0, or -1 after writing one sentence for the user into why[size]; then there is no such folder.
 */
int import_make(const char *path, const char *out, struct import_result *result, char *why, size_t size);

/* As recording_convert is to be: of such a file, a trace that ends with this process. */
const char *import_temporary(const char *path, char *why, size_t size);

#endif
