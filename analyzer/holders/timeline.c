/* SPDX-License-Identifier: MIT */
/* Filling, halving and resampling the steps of a timeline. */
#include "analyzer/holders/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/recording/kept.h"

void timeline_init(struct timeline *t)
{
	*t = (struct timeline){ .step_ns = 1000 };
}

void timeline_release(struct timeline *t)
{
	for (size_t i = 0; i < t->nr_tracks; i++)
		free(t->track[i].step);
	free(t->track);
	*t = (struct timeline){ 0 };
}

static void raise_to(struct timeline_values *to, const struct timeline_values *v)
{
	if (v->allocated > to->allocated)
		to->allocated = v->allocated;
	if (v->reserved > to->reserved)
		to->reserved = v->reserved;
	if (v->driver > to->driver)
		to->driver = v->driver;
}

static struct timeline_track *find_track(struct timeline *t, const struct replay_process *process,
					 uint32_t device)
{
	struct timeline_track *track;

	for (size_t i = t->nr_tracks; i-- > 0;)
		if (t->track[i].process == process && t->track[i].device == device)
			return &t->track[i];
	track = realloc(t->track, (t->nr_tracks + 1) * sizeof(*track));
	if (!track)
		return NULL;
	t->track = track;
	track += t->nr_tracks;
	*track = (struct timeline_track){ .process = process, .device = device };
	track->step = calloc(TIMELINE_STEPS, sizeof(*track->step));
	if (!track->step)
		return NULL;
	t->nr_tracks++;
	track->is_new = true;
	return track;
}

/* Make every two steps one. */
static void halve(struct timeline *t)
{
	t->step_ns *= 2;
	for (size_t i = 0; i < t->nr_tracks; i++) {
		struct timeline_track *track = &t->track[i];
		uint64_t nr = (track->filled + 1) / 2;

		for (uint64_t k = 0; k < nr; k++) {
			struct timeline_values both = track->step[2 * k];

			if (2 * k + 1 < track->filled)
				raise_to(&both, &track->step[2 * k + 1]);
			track->step[k] = both;
		}
		track->filled = nr;
	}
}

/* Fill up to and including the step: what had been reached holds until something changes. */
static void fill_to(struct timeline_track *track, uint64_t step)
{
	while (track->filled <= step)
		track->step[track->filled++] = track->now;
}

void timeline_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	struct timeline *t = ctx;
	const struct device_books *books;
	struct timeline_track *track;
	struct timeline_values now;
	uint64_t step, kept_ns;

	if (ev->device >= TFMT_NR_DEVICES || t->failed)
		return;
	books = &process->books.device[ev->device];
	track = find_track(t, process, ev->device);
	if (!track) {
		t->failed = true;
		return;
	}
	while (time_ns / t->step_ns >= TIMELINE_STEPS)
		halve(t);
	step = time_ns / t->step_ns;
	now = (struct timeline_values){ books->allocated_bytes, books->reserved_bytes, books->driver_bytes };
	if (track->is_new && kept_from(process->reader, &kept_ns) && replay_time(process, kept_ns) / t->step_ns < step) {
		/* What was held when the kept part begins, but for this event. */
		if (replay_time(process, kept_ns) >= t->step_ns)
			fill_to(track, replay_time(process, kept_ns) / t->step_ns - 1);
		track->now = now;
	}
	track->is_new = false;
	fill_to(track, step);
	track->now = now;
	/* Events of one device are almost in time order; a late one counts in the step that is open. */
	raise_to(&track->step[track->filled - 1], &track->now);
}

void timeline_resample(const struct timeline *t, const struct timeline_track *track, uint64_t end_ns,
		       struct timeline_values *values, uint32_t nr)
{
	double part_ns = (double)(end_ns ? end_ns : 1) / nr;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t from = (uint64_t)(i * part_ns) / t->step_ns;
		/* A part shorter than a step shows that step; the last part includes the end. */
		uint64_t to = i + 1 == nr ? end_ns / t->step_ns + 1 : (uint64_t)((i + 1) * part_ns) / t->step_ns;

		to = to > from ? to : from + 1;
		values[i] = (struct timeline_values){ 0 };
		for (uint64_t k = from; k < to && k < track->filled; k++)
			raise_to(&values[i], &track->step[k]);
		/* Steps are as fine as this track's events let them be; what lies behind may be any number of them. */
		if (to > track->filled)
			raise_to(&values[i], &track->now);
	}
}
