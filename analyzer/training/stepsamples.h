/* SPDX-License-Identifier: MIT */
/*
 * Step samples: what each group held where steps began.
 *
 * A *sample* is taken at the first allocation of a step's forward, or where a range that is a step begins. That is a
 * little after the step's boundary (steps.h), for which it stands: the batch before is gone by then. Which boundaries
 * are steps shows at the end only, so there is one series for each list of boundaries. When a series is full every
 * other sample is dropped, and from then on every other boundary is left out: memory follows the groups live at a
 * boundary, never the number of steps.
 *
 * Until a step shows there are samples of time: in each of so many equal parts of it the moment at which least was
 * allocated, nearly, as what a program holds between two pieces of its work is least.
 */
#ifndef VT_STEPSAMPLES_H
#define VT_STEPSAMPLES_H

#include "analyzer/training/lives.h"

#define STEPSAMPLES_MAX 256 /* of a series; halved when there would be more */

enum stepsamples_of { SAMPLES_CYCLES, SAMPLES_UPDATED, SAMPLES_NAMED, SAMPLES_TIME, NR_SAMPLES_OF };

struct stepsample_part {
	uint32_t group, blocks; /* index into the books' groups */
	uint64_t bytes;
};

struct stepsample {
	uint64_t ordinal; /* of the boundary */
	uint64_t taken;   /* of the event before which the sample was taken */
	uint64_t time_ns; /* CLOCK_MONOTONIC of the sample */
	uint32_t nr_steps; /* that lie before it */
	uint32_t nr_parts;
	struct stepsample_part *part; /* groups that held something, by index; series share them */
};

struct stepsample_series {
	struct stepsample sample[STEPSAMPLES_MAX];
	uint32_t nr_samples;
	uint32_t stride; /* boundaries from one to the next; 0 = 1 */
};

/* Of one process. Zero before first use. */
struct stepsamples {
	struct stepsample_series of[NR_SAMPLES_OF];

	/* private */
	struct stepsample latest; /* of the cycle that has begun last; part NULL = not taken */
	uint32_t nr_updated;      /* bounds of steps.updated that were looked at */
	uint32_t nr_rounds;       /* of nr_updated: those that begin a round, as far as could be told */
	struct stepsample lowest; /* of the part of time that has begun last */
	uint64_t part_ns, next_ns; /* how long a part is, and when the next begins */
	uint64_t below_bytes;     /* less than that is a new lowest */
	struct stepsample_part *scratch;
	size_t scratch_room;
};

/* The event that lives_next() was called with, before it is entered in the books. */
void stepsamples_next(struct stepsamples *t, struct lives *lives, const struct books *books);

/* After steps_finish(): leave out samples that turned out to lie within steps, and count the steps before the others. */
void stepsamples_finish(struct stepsamples *t, const struct steps *s);
void stepsamples_release(struct stepsamples *t);

/* The series of the boundaries that count, once all events are known; of time (SAMPLES_TIME) when there are no steps. */
const struct stepsample_series *stepsamples_series(const struct stepsamples *t, const struct steps *s);

#endif
