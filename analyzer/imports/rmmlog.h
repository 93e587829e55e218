/* SPDX-License-Identifier: MIT */
/*
 * The log of events that RMM (RAPIDS' memory manager) writes, as the trace of one process: lines of "Thread, Time, Action,
 * Pointer, Size, Stream". Memory is counted as taken from the driver, by the call "RMM allocate"; a pool below RMM takes more.
 * The log has no stacks, and times of day without a date.
 */
#ifndef VT_RMMLOG_H
#define VT_RMMLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tracefmt/tracefmt.h"

struct rmmlog {
	FILE *file;
	uint8_t device;    /* of ".dev1" in the file's name, else 0 */
	uint64_t first_ns; /* time of the first row */
	char why[256];     /* why it could not be read: without the file's name */
};

struct rmmlog_result {
	uint64_t nr_events;
	uint64_t nr_unexplained; /* frees of what was not allocated, allocations where something is */
	int error;               /* errno of a failed write */
};

/* Does the file begin as such a log does? Of anything that is no regular file: no. */
bool rmmlog_is_log(const char *path);

/* Open one, up to its first row. Returns 0, or -1 with l->why. rmmlog_close() is needed either way. */
int rmmlog_open(struct rmmlog *l, const char *path);
void rmmlog_close(struct rmmlog *l);

struct tfmt_header rmmlog_header(const struct rmmlog *l);

/* Write its trace to an empty file. Returns 0, an enum tfmt_err, or 1 with l->why: a row cannot be understood. */
int rmmlog_write(struct rmmlog *l, const struct tfmt_header *header, int fd, struct rmmlog_result *result);

#endif
