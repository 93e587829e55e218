/* SPDX-License-Identifier: MIT */
/*
 * One trace read from front to back by a command that shows it as it is (info, dump, verify), with what is
 * wrong with it put into words.
 */
#ifndef VT_TRACEVIEW_H
#define VT_TRACEVIEW_H

#include "tracefmt/tracefmt.h"

struct traceview {
	const char *path;
	struct tfmt_reader *reader;
	const struct tfmt_header *header;
	uint64_t last_ns;        /* CLOCK_MONOTONIC of the last event read, at least the start */
	uint64_t nr_damaged;     /* places that traceview_next() had to skip */
	uint64_t damaged_offset; /* first byte of the last of them */
	const char *damage;      /* what was wrong there; valid until the next call */
	char trouble[1024];      /* one sentence for the user about the first trouble, "" = none */
};

/* How a process ended, as info and verify name it. */
const char *traceview_end_name(enum tfmt_process_end end);

/* Why tfmt_reader_open() has failed, in one sentence for the user; errno is that of TFMT_E_IO. */
void traceview_say_unreadable(char *text, size_t size, const char *path, int err, uint64_t offset);

/*
 * Open the trace. Returns 0, or an error with v->trouble set. path must outlive the view. traceview_close()
 * is needed either way.
 */
int traceview_open(struct traceview *v, const char *path);
void traceview_close(struct traceview *v);

/*
 * The next event: 1, 0 at the end, -1 at damage that has been skipped (v->damage tells, NULL: it was there before the
 * recording was repaired; go on calling).
 */
int traceview_next(struct traceview *v, struct tfmt_event *ev);

/*
 * After the end: is the end of the trace missing, because neither a last frame nor a ring file is there? Adds
 * to v->trouble. A process that still runs misses nothing.
 */
bool traceview_lacks_end(struct traceview *v);

#endif
