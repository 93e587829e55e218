/* SPDX-License-Identifier: MIT */
/*
 * A picture as JSON (docs/schemas/picture.schema.json): tables in columns of whole numbers, each but the first as the
 * difference to the one before it, which compress well.
 */
#ifndef VT_PRINT_PICTURE_H
#define VT_PRINT_PICTURE_H

#include <stdio.h>

#include "analyzer/picture/picture.h"

/* How much of it is printed. */
struct print_picture_options {
	size_t max_large; /* blocks one by one, of the whole recording */
	size_t max_parts; /* at which others are summed up, and of the totals eight times as many; of each device */
	bool with_source; /* lines of the program's files around those that allocated */
};

void print_picture(FILE *out, struct replay *m, const struct picture *p, const struct print_picture_options *o);

#endif
