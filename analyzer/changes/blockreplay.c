/* SPDX-License-Identifier: MIT */
/* Adding up blocks over time. */
#include "analyzer/changes/blockreplay.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

void blockreplay_change(struct blockreplay *r, uint64_t time, int64_t bytes)
{
	if (time > r->to)
		return;
	r->delta = heap_grow(r->delta, &r->room, r->nr + 1, sizeof(*r->delta));
	r->delta[r->nr++] = (struct blockreplay_delta){ time < r->from ? r->from : time, bytes };
}

void blockreplay_add(struct blockreplay *r, uint64_t from, uint64_t to, uint64_t bytes)
{
	if (from < r->from)
		from = r->from;
	if (from >= to || from > r->to || !bytes)
		return;
	blockreplay_change(r, from, (int64_t)bytes);
	blockreplay_change(r, to, (int64_t)-bytes);
}

/* What ends at a time makes room for what begins then. */
static int by_time(const void *va, const void *vb)
{
	const struct blockreplay_delta *a = va, *b = vb;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

uint64_t blockreplay_peak(struct blockreplay *r)
{
	uint64_t now = 0; /* wraps around where a damaged trace tells of sizes that no machine has */
	int64_t most = 0;

	if (r->nr)
		qsort(r->delta, r->nr, sizeof(*r->delta), by_time);
	for (size_t i = 0; i < r->nr; i++) {
		now += (uint64_t)r->delta[i].bytes;
		most = (int64_t)now > most ? (int64_t)now : most;
	}
	return (uint64_t)most;
}

void blockreplay_release(struct blockreplay *r)
{
	free(r->delta);
	r->delta = NULL;
	r->nr = r->room = 0;
}
