/* SPDX-License-Identifier: MIT */
/* Brackets cut where memory should run out, or else in equal parts. */
#include "analyzer/maxfit/fitsearch.h"

#include <math.h>

void fitsearch_init(struct fitsearch *s, int64_t nr, int64_t middle)
{
	*s = (struct fitsearch){ .nr = nr, .fits = -1, .fails = nr, .middle = middle };
}

void fitsearch_enter(struct fitsearch *s, int64_t index, bool fits)
{
	if (fitsearch_is_moot(s, index))
		return;
	if (fits)
		s->fits = index;
	else
		s->fails = index;
}

bool fitsearch_is_done(const struct fitsearch *s)
{
	return s->fails - s->fits <= 1;
}

bool fitsearch_is_moot(const struct fitsearch *s, int64_t index)
{
	return index <= s->fits || index >= s->fails;
}

/* Add an index of the bracket that is not there yet, in its place. */
static void add(const struct fitsearch *s, int64_t index, int64_t *out, unsigned *nr)
{
	unsigned at = *nr;

	if (fitsearch_is_moot(s, index))
		return;
	for (unsigned i = 0; i < *nr; i++)
		if (out[i] == index)
			return;
	for (; at && out[at - 1] > index; at--)
		out[at] = out[at - 1];
	out[at] = index;
	++*nr;
}

/* The point nearest to the capacity, of those with another index than `but`. */
static const struct fitsearch_point *nearest(const struct fitsearch *s, const struct fitsearch_point *points,
					     size_t nr_points, const struct fitsearch_point *but)
{
	const struct fitsearch_point *best = NULL;

	for (size_t i = 0; i < nr_points; i++) {
		const struct fitsearch_point *p = &points[i];

		if (but && p->index == but->index)
			continue;
		if (!best ||
		    fabs(p->used_bytes - s->capacity_bytes) < fabs(best->used_bytes - s->capacity_bytes))
			best = p;
	}
	return best;
}

/* Where a line through two points reaches the capacity. */
static double reach(const struct fitsearch *s, int64_t index, double bytes, double bytes_per_index)
{
	return floor((double)index + (s->capacity_bytes - bytes) / bytes_per_index);
}

/* The index itself, or the nearest one that is still open. */
static int64_t open_at(const struct fitsearch *s, double index)
{
	if (index <= (double)s->fits)
		return s->fits + 1;
	return index >= (double)s->fails ? s->fails - 1 : (int64_t)index;
}

/*
 * The last that should fit, and the first that should not. False: the points do not tell, or what they tell has turned
 * out to be wrong.
 */
static bool guess(const struct fitsearch *s, const struct fitsearch_point *points, size_t nr_points,
		  int64_t edge[static 2])
{
	const struct fitsearch_point *a = nearest(s, points, nr_points, NULL);
	const struct fitsearch_point *b = a ? nearest(s, points, nr_points, a) : NULL;
	double used, needed, last;

	if (!b || s->capacity_bytes <= 0)
		return false;
	used = (a->used_bytes - b->used_bytes) / (double)(a->index - b->index);
	needed = (a->needed_bytes - b->needed_bytes) / (double)(a->index - b->index);
	if (used <= 0 || needed <= 0)
		return false;
	last = reach(s, a->index, a->used_bytes, used);
	if (last >= (double)s->fails && s->fails < s->nr)
		return false;
	edge[0] = open_at(s, last);
	edge[1] = open_at(s, reach(s, a->index, a->needed_bytes, needed) + 1);
	return true;
}

/* Those in the middle of the largest gaps; equal parts when there are none yet. */
static void divide(const struct fitsearch *s, unsigned room, int64_t *out, unsigned *nr)
{
	int64_t width = s->fails - s->fits;

	if (!*nr)
		for (unsigned i = 1; i <= room; i++)
			add(s, s->fits + width * i / (room + 1), out, nr);
	while (*nr < room) {
		int64_t low = s->fits, best = 0, at = s->fails;

		for (unsigned i = 0; i <= *nr; i++) {
			int64_t high = i < *nr ? out[i] : s->fails;

			if (high - low > best) {
				best = high - low;
				at = low + best / 2;
			}
			low = high;
		}
		if (best <= 1)
			return;
		add(s, at, out, nr);
	}
}

unsigned fitsearch_next(struct fitsearch *s, const struct fitsearch_point *points, size_t nr_points,
			unsigned room, int64_t out[static FITSEARCH_MAX_ROOM])
{
	int64_t width = s->fails - s->fits, edge[2];
	/* A guess that cut off less than equal parts would have is not made twice. */
	bool is_slow = s->last_width && width > s->last_width / (room + 1) + 1;
	unsigned nr = 0;

	room = room < FITSEARCH_MAX_ROOM ? room : FITSEARCH_MAX_ROOM;
	s->last_width = 0;
	if (!is_slow && guess(s, points, nr_points, edge)) {
		s->last_width = width;
		add(s, edge[0], out, &nr);
		if (nr < room)
			add(s, edge[1], out, &nr);
		/* Side by side they may settle it. */
		if (nr < room)
			add(s, edge[0] + 1, out, &nr);
		if (nr < room)
			add(s, edge[0] - 1, out, &nr);
	} else if (s->fails == s->nr && (nr_points < 2 || s->capacity_bytes <= 0)) {
		if (s->fits < 0)
			add(s, 0, out, &nr);
		if (nr < room)
			add(s, s->middle, out, &nr);
	}
	divide(s, room, out, &nr);
	return nr;
}
