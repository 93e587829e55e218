/* SPDX-License-Identifier: MIT */
/*
 * A trace of PyTorch's profiler (profile(profile_memory=True), export_chrome_trace(), also compressed by gzip): its memory
 * events as the trace of one process, with the functions and operators that ran around each where the profiler noted them
 * (with_stack=True). Of a function it tells the line where it begins, not that of the call.
 *
 * It tells of each block that came or went its size, and what was allocated and reserved then; of segments and of the driver it
 * tells nothing. What was allocated before it began is known by its end, or as a sum, which is one block here.
 */
#ifndef VT_PROFILETRACE_H
#define VT_PROFILETRACE_H

#include "analyzer/imports/snapshot.h"

struct profiletrace_event;
struct profiletrace_span;

struct profiletrace {
	struct snapshot names; /* its stacks and devices; no segments or entries */
	struct profiletrace_event *event;
	size_t nr_events, events_room;
	struct profiletrace_span *span;
	size_t nr_spans, spans_room;
	uint64_t base_ns; /* of the time of day: times count from there */
	char why[256];	  /* why it could not be read: without the file's name */
};

struct profiletrace_result {
	uint64_t nr_events;
	uint64_t nr_unexplained; /* blocks that came where one was */
	int error;		 /* errno of a failed write */
};

/* Does the file begin as such a trace does? Of anything that is no regular file: no. */
bool profiletrace_is_trace(const char *path);

/* Read one. Returns 0, or -1 with p->why. profiletrace_release() is needed either way. */
int profiletrace_read(struct profiletrace *p, const char *path);
void profiletrace_release(struct profiletrace *p);

struct tfmt_header profiletrace_header(const struct profiletrace *p);

/* Write its trace to an empty file. Returns 0 or an enum tfmt_err. */
int profiletrace_write(struct profiletrace *p, const struct tfmt_header *header, int fd, struct profiletrace_result *result);

#endif
