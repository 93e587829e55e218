/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: when the trace has a limit, or the disk has not much left, its oldest part is dropped.
 *
 * Of a budget, 9/16 are the trace before it is cut, and 6/16 the part that goes to a new file: both exist while that
 * is written, and what else is recorded meanwhile takes of the rest. The new file is on the disk before it takes the
 * trace's name: a power cut leaves the one or the other. Drain thread only.
 */
#ifndef IP_FLIGHT_H
#define IP_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "filesync.h"
#include "flight_steps.h"
#include "storage.h"
#include "tracefmt/tracefmt.h"

struct flight {
	struct storage *storage;
	struct tfmt_writer *writer;
	bool off;             /* there was no memory for it */
	uint64_t budget;      /* bytes; 0 = the trace may grow */
	uint64_t rotate_bytes, kept_bytes; /* cut it when it is so large, to so much */
	uint64_t kept_steps;  /* keep so many, if the budget lets; 0 = it alone decides */
	struct steps steps;   /* counted if so */
	uint64_t step;        /* their number when it was last looked at */
	uint64_t next_bytes;  /* after a failure: not before the trace is so large */
	uint64_t space_ns;    /* when free space was looked at last */
	bool is_short;        /* there is too little of it: the budget is for that */
	bool said_short;
	bool dropping;
	struct filesync sync; /* of the new file */
	uint64_t sync_limit_bytes; /* it is waited for until both files are so large; 0: it has not been begun */
	uint64_t failures;    /* how often nothing could be dropped */
	const char *what;     /* stood in the way at last, and its errno; to be told; NULL: has been told */
	int reason;
};

/* The writer has been opened and has no event yet. */
void flight_begin(struct flight *f, struct storage *s, struct tfmt_writer *w);

/*
 * To be called now and then, with is_flushed while nothing is buffered in the writer. False: the writer has failed,
 * and tfmt_writer_errno() says why.
 */
bool flight_tend(struct flight *f, bool is_flushed);

/* The recording ends: what has been begun is left. */
void flight_end(struct flight *f);

#endif
