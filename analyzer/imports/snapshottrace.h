/* SPDX-License-Identifier: MIT */
/* A snapshot becomes the trace of one process. */
#ifndef VT_SNAPSHOTTRACE_H
#define VT_SNAPSHOTTRACE_H

#include "analyzer/imports/snapshot.h"

struct snapshottrace_result {
	uint64_t nr_events;
	uint64_t nr_unexplained; /* blocks and segments of the end that no entry explains, or that should not be there */
	int error;               /* errno of a failed write */
};

/* The header of a trace of it. */
struct tfmt_header snapshottrace_header(const struct snapshot *s);

/* Write it to an empty file. Notes in the snapshot's entries what it finds out. Returns 0 or an enum tfmt_err. */
int snapshottrace_write(struct snapshot *s, const struct tfmt_header *header, int fd, struct snapshottrace_result *result);

#endif
