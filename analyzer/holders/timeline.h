/* SPDX-License-Identifier: MIT */
/*
 * Memory over time in a bounded number of steps: each step keeps the maximum of what it covers, so that a
 * short peak is never lost. The length of a recording is not known beforehand: when the steps run out,
 * pairs of them become one.
 */
#ifndef VT_TIMELINE_H
#define VT_TIMELINE_H

#include "analyzer/replay/replay.h"

#define TIMELINE_STEPS 4096

struct timeline_values {
	uint64_t allocated, reserved, driver;
};

/* One device of one process. */
struct timeline_track {
	const struct replay_process *process;
	uint32_t device;
	struct timeline_values *step; /* TIMELINE_STEPS maxima */
	struct timeline_values now;
	bool is_new; /* no event has been observed */
	uint64_t filled; /* steps 0..filled-1 hold */
};

struct timeline {
	uint64_t step_ns; /* of all tracks */
	struct timeline_track *track;
	size_t nr_tracks;
	bool failed; /* out of memory */
};

void timeline_init(struct timeline *t);
void timeline_release(struct timeline *t);

/* A struct replay_options observer; ctx is the timeline. */
void timeline_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns);

/*
 * The maxima of a track in `nr` equal parts of [0, end_ns], into values[nr]; parts between events keep the
 * value they began with. nr is at least 1; end_ns is at least the time of the last event.
 */
void timeline_resample(const struct timeline *t, const struct timeline_track *track, uint64_t end_ns,
		       struct timeline_values *values, uint32_t nr);

#endif
