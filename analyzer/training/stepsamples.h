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
 * Until a step shows there are samples of work, never of the clock: in each of so many parts of equally many events the
 * moment at which least was allocated, nearly, as what a program holds between two pieces of its work is least. Where the
 * program calls a model again and again, they count its calls.
 */
#ifndef VT_STEPSAMPLES_H
#define VT_STEPSAMPLES_H

#include "analyzer/training/lives.h"

#define STEPSAMPLES_MAX 256 /* of a series; halved when there would be more */

enum stepsamples_of { SAMPLES_CYCLES, SAMPLES_UPDATED, SAMPLES_NAMED, SAMPLES_WORK, NR_SAMPLES_OF };

struct stepsample_part {
	uint32_t group, blocks; /* index into the books' groups */
	uint64_t bytes;
};

struct stepsample {
	uint64_t ordinal; /* of the boundary */
	uint64_t taken;   /* of the event before which the sample was taken */
	uint64_t time_ns; /* CLOCK_MONOTONIC of the sample */
	uint32_t nr_steps; /* that lie before it */
	uint32_t nr_calls; /* of work: calls of a model that began before it, those with nothing allocated between them as one */
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
	bool is_by_calls; /* after stepsamples_finish(): samples of work are by nr_calls, each after another call */

	/* private */
	struct stepsample latest; /* of the cycle that has begun last; part NULL = not taken */
	uint32_t nr_updated;      /* bounds of steps.updated that were looked at */
	uint32_t nr_rounds;       /* of nr_updated: those that begin a round, as far as could be told */
	struct stepsample lowest; /* of the part of work that has begun last */
	uint64_t part_events, next; /* how long a part is, and with which event (ordinal) the next begins */
	uint64_t below_bytes;     /* less than that is a new lowest */
	struct stepsample_part *scratch;
	size_t scratch_room;
};

/* The event that lives_next() was called with, before it is entered in the books. */
void stepsamples_next(struct stepsamples *t, struct lives *lives, const struct books *books, bool is_allocation);

/*
 * After steps_finish(): leave out samples that turned out to lie within steps, and count the steps before the others. Of
 * work, where there were enough calls, leave the lowest after each.
 */
void stepsamples_finish(struct stepsamples *t, const struct steps *s);
void stepsamples_release(struct stepsamples *t);

/* The series of the boundaries that count, once all events are known; of work (SAMPLES_WORK) when there are no steps. */
const struct stepsample_series *stepsamples_series(const struct stepsamples *t, const struct steps *s);

#endif
