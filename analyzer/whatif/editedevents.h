/* SPDX-License-Identifier: MIT */
/*
 * A recording's events as other code would have made them (edits.h), so that a replay keeps the blocks of that code: for the
 * autopsy of the request at which it runs out of memory. One device's requests are edited, all other events stay.
 * Single-threaded.
 */
#ifndef VT_EDITEDEVENTS_H
#define VT_EDITEDEVENTS_H

#include "analyzer/replay/replay.h"
#include "analyzer/whatif/edits.h"

struct editedevents {
	/* private */
	const struct edits *edits;
	size_t failed_step, next;
	struct edited_block *block; /* of each edit */
	struct tfmt_event *out;
	size_t nr, room;
	uint64_t reserved; /* as last reported */
};

/* edits: closed, and kept until editedevents_release(). failed_step: the one whose request fails; SIZE_MAX: the recording's does. */
void editedevents_init(struct editedevents *x, const struct edits *edits, size_t failed_step);
void editedevents_release(struct editedevents *x);

/* A struct replay_editor's edit; ctx is the struct editedevents. */
size_t editedevents_next(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, bool fails,
			 const struct tfmt_event **out);

#endif
