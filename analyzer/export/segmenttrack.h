/* SPDX-License-Identifier: MIT */
/*
 * The segments that PyTorch's allocator has at the end, followed at the cost of the driver's events: which range of driver
 * memory is a segment, and of which stream, tells the first tensor that it was taken for; which blocks are in it, those that
 * are live at the end.
 */
#ifndef VT_SEGMENTTRACK_H
#define VT_SEGMENTTRACK_H

#include "analyzer/export/segmentlist.h"
#include "analyzer/replay/replay.h"

/* Zero before first use. */
struct segmenttrack {
	struct segmenttrack_device *device;
	size_t nr_devices, room;
};

/* Each event, also such as are `before`. */
void segmenttrack_observe(struct segmenttrack *t, const struct replay_process *process, const struct tfmt_event *ev,
			  uint64_t time_ns);

/*
 * After the last event, once for a device: its segments, with the blocks of `life`, which are live. block[].group is 1 + the
 * place in `life`; 0 = a free block. A block that lies in no memory that was seen being taken, as those of the driver's pools,
 * is a segment of its own. To be released.
 */
void segmenttrack_list(struct segmentlist *l, struct segmenttrack *t, const struct replay_device *d,
		       const struct life *life, size_t nr_lives);
void segmenttrack_release(struct segmenttrack *t);

#endif
