/* SPDX-License-Identifier: MIT */
/* What the framework's allocator has told of itself (TFMT_ALLOCATOR), entered into the books of a device. */
#ifndef VT_BOOKS_TRACKER_H
#define VT_BOOKS_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

struct books;
struct device_books;

/* Of one device. */
struct told_books {
	uint64_t allocs;          /* blocks handed out */
	uint64_t requested_bytes; /* what was asked for them, until they were really free */
	uint64_t requested_peak_bytes;
	uint64_t retries;         /* allocations that worked or failed only after the cache had been emptied */
};

/* What its threads have seen since their latest allocation. */
struct told_threads {
	bool *short_of_memory;
	uint32_t nr_threads;
};

/* A TFMT_ALLOCATOR or TFMT_ALLOC_FAILED event. */
void books_told(struct books *books, const struct tfmt_event *ev);

/* Is what the allocator told complete: was it told of every block? Then the bytes asked for are exact. */
bool books_told_all(const struct device_books *d);

/*
 * Does it say also how often the allocator emptied its cache to try again? Not with settings by which it
 * gives memory back for other reasons. conf: INFO `allocator_conf`, or NULL.
 */
bool books_told_retries(const struct device_books *d, const char *conf);

#endif
