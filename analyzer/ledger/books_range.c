/* SPDX-License-Identifier: MIT */
/* The books by NVTX range: whose memory it is in the program's own words. */
#include "analyzer/ledger/books_range.h"

#include <string.h>

#include "analyzer/ledger/books_driver.h"

uint32_t books_range_find(struct books *books, const struct tfmt_event *ev, bool tensor)
{
	uint32_t path = ranges_path(&books->ranges, ev);
	struct group_identity id = { .python_stack = path, .device = event_device(ev), .tensor = tensor };
	bool is_new;
	uint32_t index;

	if (!path)
		return 0;
	index = groups_find(&books->by_range, &id, &is_new);
	if (is_new)
		memcpy(books->by_range.group[index].seen, books->device[id.device].mark,
		       sizeof(books->device[id.device].mark));
	return index + 1;
}

/* NULL: the block counts in none. */
static struct group *range_group(struct books *books, const struct block *b, const struct group *g)
{
	struct group *r = &books->by_range.group[b->range - 1];

	if (!group_is_device_memory(g))
		return NULL;
	group_keep_marks(r, books->device[g->device].mark);
	return r;
}

void books_range_enter_one(struct books *books, const struct block *b, const struct group *g)
{
	struct group *r = range_group(books, b, g);

	if (!r)
		return;
	r->live.bytes += b->size;
	r->live.blocks++;
}

void books_range_leave_one(struct books *books, const struct block *b, const struct group *g)
{
	struct group *r = range_group(books, b, g);

	if (!r)
		return;
	r->live.bytes -= b->size;
	r->live.blocks--;
}
