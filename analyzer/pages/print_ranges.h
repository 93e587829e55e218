/* SPDX-License-Identifier: MIT */
/* NVTX ranges as they are shown: of one path, and as a table of who allocated within which. */
#ifndef VT_PRINT_RANGES_H
#define VT_PRINT_RANGES_H

#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

/* "step 3 > forward" of a range group (books_range.h), "" for none. Returns buf. */
const char *print_range_path(char *buf, size_t size, const struct books *books, uint32_t range);

/* Its ranges as an array of strings named `key`, outermost first; in text nothing. */
void print_range_array(struct emit *e, const char *key, const struct books *books, uint32_t range);

struct print_ranges_query {
	const struct books *books;
	uint32_t device;
	bool tensors; /* of the tensor ledger, else device memory taken from the driver */
	enum group_mark mark;
	struct group_figures total; /* of all blocks: what is in no range is the rest */
	uint64_t top;               /* rows at most; 0 = all */
};

/*
 * The table "ranges": live bytes by the path of ranges that they were allocated in, largest first, then the rest.
 */
void print_ranges(struct emit *e, const struct print_ranges_query *q);

#endif
