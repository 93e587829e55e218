/* SPDX-License-Identifier: MIT */
/*
 * The loops of Python source that a line stands in. What a call of a function has allocated at two places of it, the
 * second above the first, was one call only if a loop holds both.
 */
#ifndef VT_SOURCELOOPS_H
#define VT_SOURCELOOPS_H

#include <stdbool.h>

#include "analyzer/pysource/sourcetext.h"
#include "tracefmt/tracefmt.h"

#define SOURCELOOPS_MAX 6

/* Its lines: the one that begins it, and the last of its body. Those of a comprehension's own code are 0 and UINT32_MAX. */
struct sourceloop {
	uint32_t first, last;
};

struct sourceloops {
	bool known;  /* false: the source cannot be read */
	uint32_t indentation; /* of the line, one more for what an `if` of that line guards */
	uint32_t nr; /* beyond SOURCELOOPS_MAX none are counted */
	struct sourceloop loop[SOURCELOOPS_MAX]; /* innermost first */
};

/* The loops around this position, of the function that the code is. */
struct sourceloops sourceloops_find(struct sourcetext *s, const struct tfmt_code *code, int32_t position);

/* The innermost loop of `a` that `b` stands in, too; NULL: there is none. */
const struct sourceloop *sourceloops_common(const struct sourceloops *a, const struct sourceloops *b);

/* Is it one of these? */
bool sourceloops_have(const struct sourceloops *s, const struct sourceloop *loop);

#endif
