/* SPDX-License-Identifier: MIT */
/*
 * The events of a Chrome trace, one at a time: the objects of the array "traceEvents" of one large object, of which nothing else
 * is kept but a number. The file may be compressed by gzip. Memory follows the largest event.
 */
#ifndef VT_JSONEVENTS_H
#define VT_JSONEVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jsonevents {
	/* Called for the text of each event, which ends with a NUL. false: it is wrong, and reading ends. */
	bool (*take)(void *ctx, char *text);
	void *ctx;
	uint64_t base_ns;  /* what "baseTimeNanoseconds" says */
	bool has_events;   /* there is such an array */
	uint64_t nr_taken;
};

/* Returns 0, or -1 with why: the file cannot be read, ends within the array, or has a wrong event. */
int jsonevents_read(struct jsonevents *j, const char *path, char *why, size_t size);

#endif
