/* SPDX-License-Identifier: MIT */
/*
 * Quantities over time in a bounded number of steps: each step keeps the maxima of what it covers, so that a short
 * peak is never lost. The length of a recording is not known beforehand: when the steps run out, pairs of them become
 * one.
 */
#ifndef VT_SERIES_H
#define VT_SERIES_H

#include "analyzer/ledger/books.h"

#define SERIES_STEPS 4096
#define SERIES_VALUES 5 /* at most */

struct series_values {
	uint64_t value[SERIES_VALUES];
};

/* One device of the books of one process. */
struct series_track {
	const struct books *books;
	uint32_t device;
	uint64_t begin_ns;          /* of the first values */
	struct series_values *step; /* SERIES_STEPS maxima */
	struct series_values now;
	uint64_t filled; /* steps 0..filled-1 hold */
};

struct series {
	uint64_t step_ns; /* of all tracks */
	struct series_track *track;
	size_t nr_tracks, room;
};

void series_init(struct series *s);
void series_release(struct series *s);

/* The track of a device, NULL if nothing was entered. */
const struct series_track *series_find(const struct series *s, const struct books *books, uint32_t device);

/* From this time on a device has these values. Times of one device hardly ever go back. */
void series_enter(struct series *s, const struct books *books, uint32_t device, uint64_t time_ns,
		  const struct series_values *values);

/*
 * The maxima of a track in `nr` equal parts of [0, end_ns], into values[nr]; parts between events keep the
 * value they began with. nr is at least 1; end_ns is at least the time of the last event.
 */
void series_resample(const struct series *s, const struct series_track *track, uint64_t end_ns,
		     struct series_values *values, uint32_t nr);

#endif
