/* SPDX-License-Identifier: MIT */
/*
 * The totals of one device over time, in a bounded number of parts: each covers as many events as the others, so that
 * where much happens much is shown, and a recording of few events is shown event by event. Of each part the *moment* is
 * kept at which most was allocated, and the last. How many events come is not known beforehand: when the parts run out,
 * pairs of them become one.
 */
#ifndef VT_MOMENTS_H
#define VT_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOMENTS_PARTS 4096 /* at the most, of a whole recording; while it is read, twice as many */
#define MOMENTS_KEPT 16    /* moments that are kept for themselves */

/* A device after one event. Bytes; times on the recording's clock. */
struct moment {
	uint64_t ordinal; /* of the event, in its process */
	uint64_t time_ns;
	uint64_t allocated, reserved, driver;
	uint64_t used; /* on the whole GPU, as the driver says; 0 = not known */
	uint8_t phase; /* enum phase */
};

struct moments_part {
	uint64_t begin_ns;
	uint64_t least; /* bytes allocated */
	struct moment most, last;
};

/* Zeroed: empty. */
struct moments {
	struct moments_part *part;
	size_t nr_parts, room;
	uint64_t events_per_part, nr_events_of_last;
	struct moment kept[MOMENTS_KEPT]; /* the latest */
	size_t nr_kept;
};

void moments_enter(struct moments *m, const struct moment *now);

/* Keep this moment whatever else is shown: memory ran out, say. Of many, the latest. */
void moments_keep(struct moments *m, const struct moment *now);
void moments_release(struct moments *m);

/* A moment as it is drawn: it holds from `from_ns` until the next does. */
struct moments_point {
	uint64_t from_ns;
	uint64_t least; /* bytes allocated at any moment of its part */
	struct moment moment;
};

/*
 * What is to be drawn with at most so many parts, at least 1: in order of time and of events, in a new array to be
 * freed. Each has one or two points; those that are kept come besides.
 */
struct moments_point *moments_points(const struct moments *m, size_t max_parts, size_t *nr);

/* Is there a moment at which a block would be seen that lives from one event up to, but not with, another? */
bool moments_see(const struct moments *m, uint64_t birth, uint64_t death);

#endif
