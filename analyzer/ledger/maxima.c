/* SPDX-License-Identifier: MIT */
/* Filling, halving and resampling the steps. */
#include "analyzer/ledger/maxima.h"

#include <stdlib.h>

#include "analyzer/ui/heap.h"

void maxima_init(struct maxima *s)
{
	*s = (struct maxima){ .step_ns = 1000 };
}

void maxima_release(struct maxima *s)
{
	for (size_t i = 0; i < s->nr_tracks; i++)
		free(s->track[i].step);
	free(s->track);
	*s = (struct maxima){ 0 };
}

static void raise_to(struct maxima_values *to, const struct maxima_values *v)
{
	for (int i = 0; i < MAXIMA_VALUES; i++)
		if (v->value[i] > to->value[i])
			to->value[i] = v->value[i];
}

static struct maxima_track *find_track(const struct maxima *s, const struct books *books, uint32_t device)
{
	for (size_t i = s->nr_tracks; i-- > 0;)
		if (s->track[i].books == books && s->track[i].device == device)
			return &s->track[i];
	return NULL;
}

const struct maxima_track *maxima_find(const struct maxima *s, const struct books *books, uint32_t device)
{
	return find_track(s, books, device);
}

static struct maxima_track *make_track(struct maxima *s, const struct books *books, uint32_t device)
{
	struct maxima_track *track;

	s->track = heap_grow(s->track, &s->room, s->nr_tracks + 1, sizeof(*s->track));
	track = &s->track[s->nr_tracks++];
	*track = (struct maxima_track){
		.books = books, .device = device, .step = heap_alloc(MAXIMA_STEPS, sizeof(*track->step))
	};
	return track;
}

/* Make every two steps one. */
static void halve(struct maxima *s)
{
	s->step_ns *= 2;
	for (size_t i = 0; i < s->nr_tracks; i++) {
		struct maxima_track *track = &s->track[i];
		uint64_t nr = (track->filled + 1) / 2;

		for (uint64_t k = 0; k < nr; k++) {
			struct maxima_values both = track->step[2 * k];

			if (2 * k + 1 < track->filled)
				raise_to(&both, &track->step[2 * k + 1]);
			track->step[k] = both;
		}
		track->filled = nr;
	}
}

/* Fill up to and including the step: what had been reached holds until something changes. */
static void fill_to(struct maxima_track *track, uint64_t step)
{
	while (track->filled <= step)
		track->step[track->filled++] = track->now;
}

void maxima_enter(struct maxima *s, const struct books *books, uint32_t device, uint64_t time_ns,
		  const struct maxima_values *values)
{
	struct maxima_track *track = find_track(s, books, device);

	if (!track)
		track = make_track(s, books, device);
	while (time_ns / s->step_ns >= MAXIMA_STEPS)
		halve(s);
	fill_to(track, time_ns / s->step_ns);
	track->now = *values;
	/* Events of one device are almost in time order; a late one counts in the step that is open. */
	raise_to(&track->step[track->filled - 1], &track->now);
}

void maxima_resample(const struct maxima *s, const struct maxima_track *track, uint64_t end_ns,
		     struct maxima_values *values, uint32_t nr)
{
	double part_ns = (double)(end_ns ? end_ns : 1) / nr;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t from = (uint64_t)(i * part_ns) / s->step_ns;
		/* A part shorter than a step shows that step; the last part includes the end. */
		uint64_t to = i + 1 == nr ? end_ns / s->step_ns + 1 : (uint64_t)((i + 1) * part_ns) / s->step_ns;

		to = to > from ? to : from + 1;
		values[i] = (struct maxima_values){ 0 };
		for (uint64_t k = from; k < to && k < track->filled; k++)
			raise_to(&values[i], &track->step[k]);
		/* What lies behind the last step entered may be any number of them. */
		if (to > track->filled)
			raise_to(&values[i], &track->now);
	}
}
