/* SPDX-License-Identifier: MIT */
/*
 * Quantities over time in a bounded number of steps: each step keeps the maxima of what it covers, so that a short
 * peak is never lost. The length of a recording is not known beforehand: when the steps run out, pairs of them become
 * one.
 */
#ifndef VT_MAXIMA_H
#define VT_MAXIMA_H

#include "analyzer/ledger/books.h"

#define MAXIMA_STEPS 4096
#define MAXIMA_VALUES 5 /* at most */

struct maxima_values {
	uint64_t value[MAXIMA_VALUES];
};

/* One device of the books of one process. */
struct maxima_track {
	const struct books *books;
	uint32_t device;
	struct maxima_values *step; /* MAXIMA_STEPS maxima */
	struct maxima_values now;
	uint64_t filled; /* steps 0..filled-1 hold */
};

struct maxima {
	uint64_t step_ns; /* of all tracks */
	struct maxima_track *track;
	size_t nr_tracks, room;
};

void maxima_init(struct maxima *s);
void maxima_release(struct maxima *s);

/* The track of a device, NULL if nothing was entered. */
const struct maxima_track *maxima_find(const struct maxima *s, const struct books *books, uint32_t device);

/* From this time on a device has these values. Times of one device hardly ever go back. */
void maxima_enter(struct maxima *s, const struct books *books, uint32_t device, uint64_t time_ns,
		  const struct maxima_values *values);

/*
 * The maxima of a track in `nr` equal parts of [0, end_ns], into values[nr]; parts between events keep the
 * value they began with. nr is at least 1; end_ns is at least the time of the last event.
 */
void maxima_resample(const struct maxima *s, const struct maxima_track *track, uint64_t end_ns,
		     struct maxima_values *values, uint32_t nr);

#endif
