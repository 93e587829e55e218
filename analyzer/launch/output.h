/* SPDX-License-Identifier: MIT */
/*
 * Where `run` puts a recording: its name before the program starts, and finding it again afterwards. A job
 * joins what it has begun itself; where another job has been before, it makes a new generation
 * (generation.h).
 */
#ifndef VT_OUTPUT_H
#define VT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "analyzer/recording/job.h"

struct output {
	char path[PATH_MAX]; /* absolute, expanded */
	char job[JOB_ID_MAX];
	bool is_per_process; /* the pattern has %p: a new name for every process */
};

/*
 * Name the recording of argv (NULL-terminated) run as `pid`. pattern: -o's argument with %p pid, %h host, %j
 * job, %r rank and %% (anything else after a % stays as it is); NULL = vramtrace-PROGRAM-JOB.vtr. o->job is
 * set by the caller. Returns 0, or RUN_TROUBLE after a message.
 */
int output_name(struct output *o, const char *pattern, const char *const *argv, pid_t pid);

/* A name as a pattern that stands for it: with %% for each %. `out` has room for twice its length. */
void output_escape(char *out, const char *name);

/* The newest generation made by job o->job, into dir; false if it made none. */
bool output_find(const struct output *o, char dir[static PATH_MAX]);

/* Bytes of the files that belong to one generation. */
uint64_t output_bytes(const char *dir);

/* Call fn for each trace (*.vtr) of one generation, in name order, with its whole path. */
void output_each_trace(const char *dir, void (*fn)(const char *path, void *context), void *context);

/* Does a trace's name (HOST.PID.START.vtr) say this host, and this pid (0 = any)? */
bool output_trace_is_of(const char *path, pid_t pid);

#endif
