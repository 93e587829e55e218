/* SPDX-License-Identifier: MIT */
/* Adding up blocks over time. */
#include "analyzer/changes/blockreplay.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

static void change(struct blockreplay *r, uint64_t time, int64_t bytes)
{
	r->change = heap_grow(r->change, &r->room, r->nr + 1, sizeof(*r->change));
	r->change[r->nr++] = (struct blockreplay_change){ time, bytes };
}

void blockreplay_add(struct blockreplay *r, uint64_t from, uint64_t to, uint64_t bytes)
{
	if (from < r->from)
		from = r->from;
	if (from >= to || from > r->to || !bytes)
		return;
	change(r, from, (int64_t)bytes);
	if (to <= r->to)
		change(r, to, -(int64_t)bytes);
}

/* What ends at a time makes room for what begins then. */
static int by_time(const void *va, const void *vb)
{
	const struct blockreplay_change *a = va, *b = vb;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

uint64_t blockreplay_peak(struct blockreplay *r)
{
	int64_t now = 0, most = 0;

	if (r->nr)
		qsort(r->change, r->nr, sizeof(*r->change), by_time);
	for (size_t i = 0; i < r->nr; i++) {
		now += r->change[i].bytes;
		most = now > most ? now : most;
	}
	return (uint64_t)most;
}

void blockreplay_release(struct blockreplay *r)
{
	free(r->change);
	r->change = NULL;
	r->nr = r->room = 0;
}
