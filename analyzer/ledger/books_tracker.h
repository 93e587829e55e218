/* SPDX-License-Identifier: MIT */
/* What the framework's allocator has told of itself (TFMT_ALLOCATOR), entered into the books of a device. */
#ifndef VT_BOOKS_TRACKER_H
#define VT_BOOKS_TRACKER_H

#include "analyzer/ledger/books.h"

/* What the allocator's threads have seen since their latest allocation. */
struct told_threads {
	bool *short_of_memory;
	uint32_t nr_threads;
};

/* A TFMT_ALLOCATOR or TFMT_ALLOC_FAILED event. */
void books_told(struct books *books, const struct tfmt_event *ev);

#endif
