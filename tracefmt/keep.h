/* SPDX-License-Identifier: MIT */
/*
 * A recorder's writer: it writes checkpoints into the trace, can leave out all that lies before one of them, and lists
 * them in an index at the end. FORMAT.md, "Checkpoints", says what they hold; tracefmt.h has the calls. Internal to
 * tracefmt.
 */
#ifndef TFMT_KEEP_H
#define TFMT_KEEP_H

#include "tracefmt/infokeys.h"
#include "tracefmt/tracefmt.h"

#define TFMT_NR_MARKS 2048 /* checkpoints that are remembered: the latest */

/* A checkpoint in the file. */
struct tfmt_mark {
	uint64_t offset, next;     /* of its first frame, and of the frame after that */
	uint64_t bytes;            /* of all its frames */
	uint64_t definition_bytes; /* of the DEFINITIONS frames before it */
	uint64_t step;             /* what the caller calls it */
	uint64_t ordinal;          /* of the next event */
	uint64_t time_ns;          /* the latest of any event before it */
	uint32_t nr_definitions;   /* DEFINITIONS frames before it */
	uint32_t sequence;
};

struct tfmt_keep {
	struct tfmt_mark mark[TFMT_NR_MARKS]; /* oldest first */
	uint32_t nr_marks;
	uint64_t *definition; /* where the DEFINITIONS frames are */
	uint32_t nr_definitions, definition_room;
	uint64_t definition_bytes;
	struct tfmt_infokeys info; /* of which value is the latest */
	uint64_t begin;       /* where the events of the file begin: nothing can be dropped before it */
	uint64_t first_end;   /* where the first frame of the checkpoint being written ends; 0: there is none yet */
	uint64_t nr_events;   /* of the checkpoint being written */
	struct tfmt_rewrite *rewrite; /* going on; else NULL */
};

/* A DEFINITIONS frame was written at this offset. Returns 0 or TFMT_E_NOMEM. */
int tfmt_keep_definitions(struct tfmt_writer *w, uint64_t offset);

void tfmt_keep_release(struct tfmt_writer *w);

/* Write the index of what is remembered, if there is a checkpoint and room for it. END comes next, and tells of it. */
void tfmt_keep_index(struct tfmt_writer *w);

#endif
