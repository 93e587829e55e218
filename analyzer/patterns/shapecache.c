/* SPDX-License-Identifier: MIT */
/* Has nearly each tensor that is kept a shape of its own? */
#include "analyzer/patterns/shapecache.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/patterns/patterns_thresholds.h"

void shapecache_add(struct shapecache *c, uint32_t shape, uint32_t step)
{
	c->entry = heap_grow(c->entry, &c->room, c->nr + 1, sizeof(*c->entry));
	c->entry[c->nr++] = (uint64_t)shape << 32 | step;
}

static int compare(const void *va, const void *vb)
{
	uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

	return (a > b) - (a < b);
}

bool shapecache_close(struct shapecache *c)
{
	if (c->nr)
		qsort(c->entry, c->nr, sizeof(*c->entry), compare);
	for (size_t i = 0; i < c->nr; i++) {
		uint64_t before = i ? c->entry[i - 1] : UINT64_MAX;

		c->nr_entries += c->entry[i] != before;
		c->nr_shapes += c->entry[i] >> 32 && c->entry[i] >> 32 != before >> 32;
	}
	free(c->entry);
	c->entry = NULL;
	c->nr = c->room = 0;
	return c->nr_shapes >= SHAPES_MIN && c->nr_shapes >= ONE_PER_SHAPE_MIN * c->nr_entries;
}
