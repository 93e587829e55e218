/* SPDX-License-Identifier: MIT */
/*
 * What each stack of a device held at a moment, or has allocated in all: the rows of formats that show stacks.
 *
 * Devices on which a framework's allocator worked have tensors counted, others what was taken from the driver. The rows of
 * a moment add up to the total that `peak` shows of it; those of all allocations to the sizes of all blocks that were
 * handed out (of a flight recording: of its kept part).
 */
#ifndef VT_WEIGHTS_H
#define VT_WEIGHTS_H

#include "analyzer/export/export.h"
#include "analyzer/export/stackframes.h"

struct weight {
	const struct group *group; /* its stacks */
	int64_t bytes, blocks;     /* bytes below 0: of group->unrecorded */
};

struct weights {
	struct weight *row;
	size_t nr_rows;
};

/*
 * Of one device of x->replay. With EXPORT_ALL weights_begin() and weights_observe() (formats.h) must have followed the events.
 * To be released.
 */
void weights_find(struct weights *w, const struct export *x, const struct replay_device *d, enum export_at at);
void weights_release(struct weights *w);

/* Release what weights_begin() made. */
void weights_end(struct export *x);

/*
 * The frames of a row, the outermost first: the recorded stack, or why there is none ("[stack not captured]"), and the
 * entry point that was called. Before them, if it is a weight_frames_of_device(), the device where several are asked for.
 */
void weight_frames(struct frames *f, const struct export *x, const struct replay_device *d, const struct weight *w);
void weight_frames_of_device(struct frames *f, const struct export *x, const struct replay_device *d,
			     const struct weight *w);

#endif
