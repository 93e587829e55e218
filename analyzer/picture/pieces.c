/* SPDX-License-Identifier: MIT */
/* Choosing pieces of driver memory, and finding them. */
#include "analyzer/picture/pieces.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"

/* ---- which are drawn --------------------------------------------------------------------------- */

static int larger_first(const void *va, const void *vb)
{
	const struct driverspan *const *a = va, *const *b = vb;

	if ((*a)->bytes != (*b)->bytes)
		return (*a)->bytes < (*b)->bytes ? 1 : -1;
	return ((*a)->begun_by > (*b)->begun_by) - ((*a)->begun_by < (*b)->begun_by);
}

struct placed {
	uint64_t address, begun_by;
	uint32_t place;
};

static int by_address(const void *va, const void *vb)
{
	const struct placed *a = va, *b = vb;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->begun_by > b->begun_by) - (a->begun_by < b->begun_by);
}

static void sort_places(struct pieces *p)
{
	struct placed *placed = heap_alloc(p->nr_pieces, sizeof(*placed));
	uint64_t reach = 0;

	p->place = heap_alloc(p->nr_pieces, sizeof(*p->place));
	p->reach = heap_alloc(p->nr_pieces, sizeof(*p->reach));
	for (size_t i = 0; i < p->nr_pieces; i++)
		placed[i] = (struct placed){ p->piece[i]->address, p->piece[i]->begun_by, (uint32_t)i };
	if (p->nr_pieces)
		qsort(placed, p->nr_pieces, sizeof(*placed), by_address);
	for (size_t i = 0; i < p->nr_pieces; i++) {
		uint64_t end = placed[i].address + p->piece[placed[i].place]->bytes;

		reach = end > reach ? end : reach;
		p->place[i] = placed[i].place;
		p->reach[i] = reach;
	}
	free(placed);
}

void pieces_open(struct pieces *p, const struct driverspans *spans, uint32_t device, size_t max)
{
	size_t nr = 0;

	*p = (struct pieces){ .piece = heap_alloc(spans->nr_spans, sizeof(const struct driverspan *)) };
	for (size_t i = 0; i < spans->nr_spans; i++)
		if (spans->span[i].device == device)
			p->piece[nr++] = &spans->span[i];
	if (nr)
		qsort(p->piece, nr, sizeof(const struct driverspan *), larger_first);
	p->nr_pieces = nr < max ? nr : max;
	p->nr_left_out = nr - p->nr_pieces + spans->nr_left_out;
	sort_places(p);
}

void pieces_close(struct pieces *p)
{
	free(p->piece);
	free(p->place);
	free(p->reach);
	*p = (struct pieces){ 0 };
}

uint32_t pieces_find(const struct pieces *p, uint64_t address, uint64_t ordinal)
{
	size_t low = 0, high = p->nr_pieces;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->piece[p->place[middle]]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* The same addresses may have been taken several times. */
	for (size_t i = low; i-- > 0 && p->reach[i] > address;) {
		const struct driverspan *span = p->piece[p->place[i]];

		if (address - span->address < span->bytes && span->begun_by <= ordinal && ordinal < span->ended_by)
			return p->place[i] + 1;
	}
	return 0;
}

/* ---- who took them ----------------------------------------------------------------------------- */

static struct pieces_owner *owner_of(struct pieces_owner **owner, size_t *nr, size_t *room, uint32_t who, size_t nr_points)
{
	for (size_t i = 0; i < *nr; i++)
		if ((*owner)[i].owner == who)
			return &(*owner)[i];
	*owner = heap_grow(*owner, room, *nr + 1, sizeof(**owner));
	(*owner)[*nr] = (struct pieces_owner){ who, heap_alloc(nr_points + 1, sizeof(uint64_t)) };
	return &(*owner)[(*nr)++];
}

struct pieces_owner *pieces_owners(const struct driverspans *spans, struct books *books, uint32_t device,
				   const struct moments_point *point, size_t nr_points, size_t *nr_owners)
{
	const size_t at = offsetof(struct moments_point, moment.ordinal);
	struct pieces_owner *owner = NULL;
	size_t room = 0;

	*nr_owners = 0;
	for (size_t i = 0; i < spans->nr_spans; i++) {
		const struct driverspan *span = &spans->span[i];
		struct pieces_owner *of;

		if (span->device != device)
			continue;
		of = owner_of(&owner, nr_owners, &room, books_group_owner(books, books_group(books, span->group)),
			      nr_points);
		/* Differences at first: they wrap around, and their sums do not. */
		of->bytes[sorted_below(point, nr_points, sizeof(*point), at, span->begun_by)] += span->bytes;
		of->bytes[sorted_below(point, nr_points, sizeof(*point), at, span->ended_by)] -= span->bytes;
	}
	for (size_t k = 0; k < *nr_owners; k++)
		for (size_t i = 1; i < nr_points; i++)
			owner[k].bytes[i] += owner[k].bytes[i - 1];
	return owner;
}

void pieces_owners_free(struct pieces_owner *owner, size_t nr_owners)
{
	for (size_t i = 0; i < nr_owners; i++)
		free(owner[i].bytes);
	free(owner);
}
