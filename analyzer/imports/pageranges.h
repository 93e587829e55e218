/* SPDX-License-Identifier: MIT */
/* Ranges of addresses that are mapped, sorted, neighbours joined. */
#ifndef VT_PAGERANGES_H
#define VT_PAGERANGES_H

#include <stddef.h>
#include <stdint.h>

struct pagerange {
	uint64_t address, size;
	uint64_t page_bytes; /* the largest of which all that were added are multiples */
};

/* Zero it before the first use. */
struct pageranges {
	struct pagerange *range;
	size_t nr, room;
};

/* Add a range, or take one away, with whatever of it is there. */
void pageranges_add(struct pageranges *p, uint64_t address, uint64_t size, uint64_t page_bytes);
void pageranges_remove(struct pageranges *p, uint64_t address, uint64_t size);

/* The range that holds an address; NULL if none does. */
const struct pagerange *pageranges_find(const struct pageranges *p, uint64_t address);
void pageranges_release(struct pageranges *p);

#endif
