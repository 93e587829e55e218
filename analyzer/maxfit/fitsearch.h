/* SPDX-License-Identifier: MIT */
/*
 * The search for the largest value that fits, on one GPU: which values to try next.
 *
 * Candidates are counted by their *index*, 0 for the smallest. What is known is a bracket: the largest index that fits
 * and the smallest that does not, all smaller ones taken to fit and all larger ones not to. Memory mostly grows as
 * the value does, so two *points* that fitted, on whatever GPU, tell about where the edge is; where that does not
 * help, the bracket is cut in equal parts. Only a try ever moves the bracket.
 *
 * Pure; the arrays are the caller's.
 */
#ifndef VT_FITSEARCH_H
#define VT_FITSEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FITSEARCH_MAX_ROOM 16

/* What a value that fits takes. */
struct fitsearch_point {
	int64_t index;
	double used_bytes;   /* of the GPU at the peak */
	double needed_bytes; /* of that, without what the allocator keeps unused: less than this cannot do */
};

struct fitsearch {
	int64_t nr;            /* candidates */
	int64_t fits, fails;   /* the bracket; -1 and nr: none known */
	int64_t middle;        /* where to begin beside 0, with no points */
	double capacity_bytes; /* that may be used; 0 = not known yet */
	int64_t last_width;    /* private: of the bracket when it was last guessed at; 0 = it was not */
};

void fitsearch_init(struct fitsearch *s, int64_t nr, int64_t middle);

/* The outcome of a try. What contradicts the bracket is passed over. */
void fitsearch_enter(struct fitsearch *s, int64_t index, bool fits);

/* Is there nothing left to try? */
bool fitsearch_is_done(const struct fitsearch *s);

/* Would its outcome tell nothing new? */
bool fitsearch_is_moot(const struct fitsearch *s, int64_t index);

/*
 * Up to `room` (at most FITSEARCH_MAX_ROOM) different indices to try now, ascending, into out. Returns how many: 0
 * when done.
 */
unsigned fitsearch_next(struct fitsearch *s, const struct fitsearch_point *points, size_t nr_points, unsigned room,
			int64_t out[static FITSEARCH_MAX_ROOM]);

#endif
