/* SPDX-License-Identifier: MIT */
/* Parts of equally many events, and what is drawn of them. */
#include "analyzer/picture/moments.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

/* Make every two parts one. */
static size_t merge_pairs(struct moments_part *part, size_t nr)
{
	size_t left = (nr + 1) / 2;

	for (size_t i = 0; i < left; i++) {
		struct moments_part both = part[2 * i];

		if (2 * i + 1 < nr) {
			const struct moments_part *next = &part[2 * i + 1];

			if (next->most.allocated > both.most.allocated)
				both.most = next->most;
			if (next->least < both.least)
				both.least = next->least;
			both.last = next->last;
		}
		part[i] = both;
	}
	return left;
}

static void begin_part(struct moments *m, const struct moment *now)
{
	if (m->nr_parts == 2 * MOMENTS_PARTS) {
		m->nr_parts = merge_pairs(m->part, m->nr_parts);
		m->events_per_part *= 2;
	}
	m->part = heap_grow(m->part, &m->room, m->nr_parts + 1, sizeof(*m->part));
	m->part[m->nr_parts++] = (struct moments_part){
		.begin_ns = now->time_ns,
		.least = now->allocated,
		.most = *now,
		.last = *now,
	};
	m->nr_events_of_last = 1;
}

void moments_enter(struct moments *m, const struct moment *now)
{
	struct moments_part *part;

	if (!m->events_per_part)
		m->events_per_part = 1;
	if (!m->nr_parts || m->nr_events_of_last == m->events_per_part) {
		begin_part(m, now);
		return;
	}
	part = &m->part[m->nr_parts - 1];
	m->nr_events_of_last++;
	if (now->allocated > part->most.allocated ||
	    (now->allocated == part->most.allocated && now->driver > part->most.driver))
		part->most = *now;
	if (now->allocated < part->least)
		part->least = now->allocated;
	part->last = *now;
}

void moments_keep(struct moments *m, const struct moment *now)
{
	if (m->nr_kept == MOMENTS_KEPT) {
		memmove(m->kept, m->kept + 1, (MOMENTS_KEPT - 1) * sizeof(*m->kept));
		m->nr_kept--;
	}
	m->kept[m->nr_kept++] = *now;
}

void moments_release(struct moments *m)
{
	free(m->part);
	*m = (struct moments){ 0 };
}

static int by_ordinal(const void *va, const void *vb)
{
	const struct moments_point *a = va, *b = vb;

	return (a->moment.ordinal > b->moment.ordinal) - (a->moment.ordinal < b->moment.ordinal);
}

/* Does one of the kept moments lie within the part, before its greatest? Then that cannot stand for the beginning. */
static bool is_preceded(const struct moments *m, const struct moments_part *part)
{
	for (size_t i = 0; i < m->nr_kept; i++)
		if (m->kept[i].time_ns >= part->begin_ns && m->kept[i].ordinal < part->most.ordinal)
			return true;
	return false;
}

/* One point for each event, in order of time: a time that goes back would draw backwards. */
static size_t tidy(struct moments_point *point, size_t nr)
{
	size_t left = 0;

	qsort(point, nr, sizeof(*point), by_ordinal);
	for (size_t i = 0; i < nr; i++) {
		if (left && point[left - 1].moment.ordinal == point[i].moment.ordinal)
			continue;
		if (left && point[i].from_ns < point[left - 1].from_ns)
			point[i].from_ns = point[left - 1].from_ns;
		point[left++] = point[i];
	}
	return left;
}

struct moments_point *moments_points(const struct moments *m, size_t max_parts, size_t *nr)
{
	struct moments_part *part = heap_alloc(m->nr_parts, sizeof(*part));
	struct moments_point *point = heap_alloc(2 * m->nr_parts + m->nr_kept, sizeof(*point));
	size_t nr_parts = m->nr_parts;

	*nr = 0;
	if (nr_parts)
		memcpy(part, m->part, nr_parts * sizeof(*part));
	while (nr_parts > max_parts)
		nr_parts = merge_pairs(part, nr_parts);
	for (size_t i = 0; i < nr_parts; i++) {
		uint64_t from_ns = is_preceded(m, &part[i]) ? part[i].most.time_ns : part[i].begin_ns;

		point[(*nr)++] = (struct moments_point){ from_ns, part[i].least, part[i].most };
		point[(*nr)++] = (struct moments_point){ part[i].last.time_ns, part[i].last.allocated, part[i].last };
	}
	for (size_t i = 0; i < m->nr_kept; i++)
		point[(*nr)++] = (struct moments_point){ m->kept[i].time_ns, m->kept[i].allocated, m->kept[i] };
	if (*nr)
		*nr = tidy(point, *nr);
	free(part);
	return point;
}

/* The first part whose last event is not before this one; the last part may still change. */
static size_t part_of(const struct moments *m, uint64_t ordinal)
{
	size_t low = 0, high = m->nr_parts;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->part[middle].last.ordinal < ordinal)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool moments_see(const struct moments *m, uint64_t birth, uint64_t death)
{
	size_t i = part_of(m, birth);

	if (i + 1 >= m->nr_parts || m->part[i].last.ordinal < death)
		return true;
	for (size_t k = 0; k < m->nr_kept; k++)
		if (birth <= m->kept[k].ordinal && m->kept[k].ordinal < death)
			return true;
	return birth <= m->part[i].most.ordinal && m->part[i].most.ordinal < death;
}
