/* SPDX-License-Identifier: MIT */
/* Filling, halving and resampling the steps. */
#include "analyzer/ledger/series.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

void series_init(struct series *s)
{
	*s = (struct series){ .step_ns = 1000 };
}

void series_release(struct series *s)
{
	for (size_t i = 0; i < s->nr_tracks; i++)
		free(s->track[i].step);
	free(s->track);
	*s = (struct series){ 0 };
}

static void raise_to(struct series_values *to, const struct series_values *v)
{
	for (int i = 0; i < SERIES_VALUES; i++)
		if (v->value[i] > to->value[i])
			to->value[i] = v->value[i];
}

static struct series_track *find_track(const struct series *s, const struct books *books, uint32_t device)
{
	for (size_t i = s->nr_tracks; i-- > 0;)
		if (s->track[i].books == books && s->track[i].device == device)
			return &s->track[i];
	return NULL;
}

const struct series_track *series_find(const struct series *s, const struct books *books, uint32_t device)
{
	return find_track(s, books, device);
}

static struct series_track *make_track(struct series *s, const struct books *books, uint32_t device, uint64_t time_ns)
{
	struct series_track *track;

	s->track = heap_grow(s->track, &s->room, s->nr_tracks + 1, sizeof(*s->track));
	track = &s->track[s->nr_tracks++];
	*track = (struct series_track){
		.books = books,
		.device = device,
		.begin_ns = time_ns,
		.step = heap_alloc(SERIES_STEPS, sizeof(*track->step)),
	};
	return track;
}

/* Make every two steps one. */
static void halve(struct series *s)
{
	s->step_ns *= 2;
	for (size_t i = 0; i < s->nr_tracks; i++) {
		struct series_track *track = &s->track[i];
		uint64_t nr = (track->filled + 1) / 2;

		for (uint64_t k = 0; k < nr; k++) {
			struct series_values both = track->step[2 * k];

			if (2 * k + 1 < track->filled)
				raise_to(&both, &track->step[2 * k + 1]);
			track->step[k] = both;
		}
		track->filled = nr;
	}
}

/* Fill up to and including the step: what had been reached holds until something changes. */
static void fill_to(struct series_track *track, uint64_t step)
{
	while (track->filled <= step)
		track->step[track->filled++] = track->now;
}

void series_enter(struct series *s, const struct books *books, uint32_t device, uint64_t time_ns,
		  const struct series_values *values)
{
	struct series_track *track = find_track(s, books, device);

	if (!track)
		track = make_track(s, books, device, time_ns);
	while (time_ns / s->step_ns >= SERIES_STEPS)
		halve(s);
	fill_to(track, time_ns / s->step_ns);
	track->now = *values;
	/* Events of one device are almost in time order; a late one counts in the step that is open. */
	raise_to(&track->step[track->filled - 1], &track->now);
}

void series_resample(const struct series *s, const struct series_track *track, uint64_t end_ns,
		     struct series_values *values, uint32_t nr)
{
	double part_ns = (double)(end_ns ? end_ns : 1) / nr;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t from = (uint64_t)(i * part_ns) / s->step_ns;
		/* A part shorter than a step shows that step; the last part includes the end. */
		uint64_t to = i + 1 == nr ? end_ns / s->step_ns + 1 : (uint64_t)((i + 1) * part_ns) / s->step_ns;

		/* So does the part in which the first values came: half of a step may lie in the next part. */
		if ((double)track->begin_ns < (i + 1) * part_ns && to <= track->begin_ns / s->step_ns)
			to = track->begin_ns / s->step_ns + 1;
		to = to > from ? to : from + 1;
		values[i] = (struct series_values){ 0 };
		for (uint64_t k = from; k < to && k < track->filled; k++)
			raise_to(&values[i], &track->step[k]);
		/* What lies after the last step entered may be any number of them. */
		if (to > track->filled)
			raise_to(&values[i], &track->now);
	}
}
