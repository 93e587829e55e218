/* SPDX-License-Identifier: MIT */
/*
 * A table that is written row by row: as CSV, with a line of names first and fields quoted as RFC 4180 has it, or as
 * NDJSON, an object a line. A row has a value for each column, in their order.
 */
#ifndef VT_ROWFILE_H
#define VT_ROWFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rowfile {
	FILE *out;
	bool is_json;
	const char *const *column; /* names; the last is NULL */
	unsigned nr_values;        /* of the row that is being written */
};

/* The line of names, where there is one. */
void rowfile_begin(const struct rowfile *r);

void rowfile_uint(struct rowfile *r, uint64_t value);
void rowfile_int(struct rowfile *r, int64_t value);
void rowfile_text(struct rowfile *r, const char *text); /* NULL: nothing is known, as rowfile_none() */
void rowfile_none(struct rowfile *r);                   /* CSV: an empty field */
void rowfile_end(struct rowfile *r);                    /* of the row */

#endif
