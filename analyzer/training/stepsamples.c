/* SPDX-License-Identifier: MIT */
/* Samples of the groups at boundaries of steps, thinned out as they become many. */
#include "analyzer/training/stepsamples.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/training/training_thresholds.h"

#define PART_EVENTS 8u /* of the first part of work; it doubles when a series is full */
#define LOWER 8 /* a new lowest is an eighth below the one before: each is a look at all groups */

static bool is_due(const struct stepsample_series *series, uint32_t index)
{
	return !series->stride || index % series->stride == 0;
}

/* Where a sample's parts lie. Most samples are kept by two series, of all cycles and of those with an update. */
struct parts {
	uint32_t nr_holders;
	struct stepsample_part part[];
};

static struct parts *parts_of(const struct stepsample *sample)
{
	return (struct parts *)((char *)sample->part - offsetof(struct parts, part));
}

/* Give a sample its parts. */
static void parts_copy(struct stepsample *sample, const struct stepsample_part *part, uint32_t nr)
{
	struct parts *parts = heap_need(malloc(sizeof(*parts) + nr * sizeof(*part)));

	parts->nr_holders = 1;
	if (nr)
		memcpy(parts->part, part, nr * sizeof(*part));
	sample->part = parts->part;
	sample->nr_parts = nr;
}

static void parts_drop(struct stepsample *sample)
{
	if (sample->part && !--parts_of(sample)->nr_holders)
		free(parts_of(sample));
	sample->part = NULL;
}

/* All groups are looked at: once, they are many. */
static void take(struct stepsamples *t, struct stepsample *sample, const struct lives *lives, const struct books *books,
		 uint64_t ordinal)
{
	uint32_t nr_groups = books_nr_groups(books), nr = 0;

	*sample = (struct stepsample){ .ordinal = ordinal,
				       .taken = lives->now.ordinal,
				       .time_ns = lives->time_ns,
				       .nr_calls = lives->now.nr_runs };
	t->scratch = heap_grow(t->scratch, &t->scratch_room, nr_groups, sizeof(*t->scratch));
	for (uint32_t i = 0; i < nr_groups; i++) {
		const struct group_figures *live = &books_group(books, i)->live;

		if (live->blocks)
			t->scratch[nr++] = (struct stepsample_part){ i, (uint32_t)live->blocks, live->bytes };
	}
	parts_copy(sample, t->scratch, nr);
}

/* Drop every other sample. */
static void halve(struct stepsample_series *series)
{
	for (uint32_t i = 0; i < series->nr_samples; i++) {
		if (i % 2)
			parts_drop(&series->sample[i]);
		else
			series->sample[i / 2] = series->sample[i];
	}
	series->nr_samples = (series->nr_samples + 1) / 2;
	series->stride = 2 * (series->stride ? series->stride : 1);
}

/* Keep a sample as that of a boundary, unless the series has become too coarse for it. */
static void keep(struct stepsample_series *series, const struct stepsample *sample, uint32_t index, uint32_t nr_steps)
{
	struct stepsample *kept;

	if (series->nr_samples == STEPSAMPLES_MAX)
		halve(series);
	if (!is_due(series, index))
		return;
	kept = &series->sample[series->nr_samples++];
	*kept = *sample;
	kept->nr_steps = nr_steps;
	parts_of(sample)->nr_holders++;
}

/* May an update yet to come make this cycle a step? Where so many had none, the first is let go by. */
static bool may_be_updated(const struct stepsamples *t, const struct steps *s)
{
	return is_due(&t->of[SAMPLES_UPDATED], t->nr_rounds) &&
	       (t->nr_updated || s->cycles.nr_bounds <= STEPSAMPLES_MAX);
}

static void cycle_began(struct stepsamples *t, const struct lives *lives, const struct books *books)
{
	const struct steps *s = &lives->steps;
	uint32_t index = s->cycles.nr_bounds - 1;

	parts_drop(&t->latest);
	if (!is_due(&t->of[SAMPLES_CYCLES], index) && !may_be_updated(t, s))
		return;
	take(t, &t->latest, lives, books, s->cycles.ordinal[index]);
	if (is_due(&t->of[SAMPLES_CYCLES], index))
		keep(&t->of[SAMPLES_CYCLES], &t->latest, index, index + 1);
}

static void named_began(struct stepsamples *t, const struct lives *lives, const struct books *books)
{
	const struct steps *s = &lives->steps;
	struct stepsample_series *series = &t->of[SAMPLES_NAMED];
	uint32_t index = s->named.nr_bounds - 1;
	struct stepsample sample;

	if (!is_due(series, index))
		return;
	take(t, &sample, lives, books, s->named.ordinal[index]);
	keep(series, &sample, index, index);
	parts_drop(&sample);
}

/* A part of work is over: its lowest moment is kept. */
static void part_ended(struct stepsamples *t)
{
	struct stepsample_series *series = &t->of[SAMPLES_WORK];

	if (!t->part_events)
		t->part_events = PART_EVENTS;
	if (!t->lowest.part)
		return;
	keep(series, &t->lowest, 0, 0);
	if (series->stride > 1) { /* it was full */
		series->stride = 1;
		t->part_events *= 2;
	}
}

/* A part of work is due: it begins with a call of the model, where one comes soon. */
static bool begins_part(const struct stepsamples *t, const struct lives *lives)
{
	bool begins_call = lives->now.phase == PHASE_FORWARD && !lives->in_run;

	return lives->now.ordinal >= t->next && (begins_call || lives->now.ordinal >= t->next + t->part_events);
}

/* No step has shown so far. What lives has of a step is, then, of the part of work. */
static void worked(struct stepsamples *t, struct lives *lives, const struct books *books)
{
	if (begins_part(t, lives)) {
		part_ended(t);
		t->next = lives->now.ordinal + t->part_events;
		lives_step_began(lives);
	}
	parts_drop(&t->lowest);
	t->below_bytes = lives->allocated - lives->allocated / LOWER;
	take(t, &t->lowest, lives, books, lives->now.ordinal);
}

void stepsamples_next(struct stepsamples *t, struct lives *lives, const struct books *books, bool is_allocation)
{
	struct steps *s = &lives->steps;

	/* Memory is low where it is about to rise. */
	if (is_allocation && !s->nr_backwards && !s->named.nr_bounds && !lives->is_past &&
	    (begins_part(t, lives) || lives->allocated < t->below_bytes))
		worked(t, lives, books);

	if (lives->signs & STEPS_CYCLE)
		cycle_began(t, lives, books);
	if (lives->signs & STEPS_NAMED)
		named_began(t, lives, books);
	/* That a cycle is a step may show when it has long begun. */
	if (s->updated.nr_bounds == t->nr_updated)
		return;
	t->nr_updated = s->updated.nr_bounds;
	if (steps_is_within_round(s))
		return;
	if (t->latest.part && is_due(&t->of[SAMPLES_UPDATED], t->nr_rounds))
		keep(&t->of[SAMPLES_UPDATED], &t->latest, t->nr_rounds, t->nr_rounds + 1);
	t->nr_rounds++;
}

static uint64_t bytes_of(const struct stepsample *sample)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < sample->nr_parts; i++)
		bytes += sample->part[i].bytes;
	return bytes;
}

static uint32_t nr_of_calls(const struct stepsample_series *series)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < series->nr_samples; i++)
		nr += !i || series->sample[i].nr_calls != series->sample[i - 1].nr_calls;
	return nr;
}

/* Of several samples after one call the lowest stays, where there are enough calls. */
static void count_calls(struct stepsamples *t)
{
	struct stepsample_series *series = &t->of[SAMPLES_WORK];
	uint32_t nr = 0;

	t->is_by_calls = nr_of_calls(series) >= CALLS_MIN;
	for (uint32_t i = 0; i < series->nr_samples && t->is_by_calls; i++) {
		struct stepsample *sample = &series->sample[i], *last = nr ? &series->sample[nr - 1] : NULL;

		if (!last || last->nr_calls != sample->nr_calls) {
			series->sample[nr++] = *sample;
		} else if (bytes_of(sample) < bytes_of(last)) {
			parts_drop(last);
			*last = *sample;
		} else {
			parts_drop(sample);
		}
	}
	if (t->is_by_calls)
		series->nr_samples = nr;
}

void stepsamples_finish(struct stepsamples *t, const struct steps *s)
{
	struct stepsample_series *series = &t->of[SAMPLES_UPDATED];
	const struct steps_bounds *b = steps_bounds(s);
	uint32_t nr = 0;

	count_calls(t);
	if (b == &s->named || b == &s->cycles)
		return;
	for (uint32_t i = 0; i < series->nr_samples; i++) {
		struct stepsample *sample = &series->sample[i];
		uint32_t begun = steps_begun(b, sample->ordinal);

		if (begun && b->ordinal[begun - 1] == sample->ordinal) {
			sample->nr_steps = begun;
			series->sample[nr++] = *sample;
		} else {
			parts_drop(sample);
		}
	}
	series->nr_samples = nr;
}

const struct stepsample_series *stepsamples_series(const struct stepsamples *t, const struct steps *s)
{
	const struct steps_bounds *b = steps_bounds(s);

	if (!steps_count(s))
		return &t->of[SAMPLES_WORK];
	if (b == &s->named)
		return &t->of[SAMPLES_NAMED];
	return &t->of[b == &s->cycles ? SAMPLES_CYCLES : SAMPLES_UPDATED];
}

void stepsamples_release(struct stepsamples *t)
{
	for (int i = 0; i < NR_SAMPLES_OF; i++)
		for (uint32_t k = 0; k < t->of[i].nr_samples; k++)
			parts_drop(&t->of[i].sample[k]);
	parts_drop(&t->latest);
	parts_drop(&t->lowest);
	free(t->scratch);
	*t = (struct stepsamples){ 0 };
}
