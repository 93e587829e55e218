/* SPDX-License-Identifier: MIT */
/*
 * The books by NVTX range. Blocks remember the *range group* that they were allocated in: blocks of the same
 * ledger, device and path of ranges (ranges.h), whose python_stack is the path. Numbers of range groups are indices
 * into books->by_range plus one; 0 is no range at all.
 */
#ifndef VT_BOOKS_RANGE_H
#define VT_BOOKS_RANGE_H

#include "analyzer/ledger/books_inside.h"

/* The range group of an allocation, 0 for no range. */
uint32_t books_range_find(struct books *books, const struct tfmt_event *ev, bool tensor);
static inline uint32_t books_range_of(struct books *books, const struct tfmt_event *ev, bool tensor)
{
	return books->ranges.figures.nr_ranges ? books_range_find(books, ev, tensor) : 0;
}

/* A block of group g enters and leaves the books. Where the program has no ranges, that is nothing. */
void books_range_enter_one(struct books *books, const struct block *b, const struct group *g);
void books_range_leave_one(struct books *books, const struct block *b, const struct group *g);
static inline void books_range_enter(struct books *books, const struct block *b, struct group *g)
{
	g->live.range = b->range;
	if (b->range)
		books_range_enter_one(books, b, g);
}

static inline void books_range_leave(struct books *books, const struct block *b, const struct group *g)
{
	if (b->range)
		books_range_leave_one(books, b, g);
}

#endif
