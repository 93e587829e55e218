/* SPDX-License-Identifier: MIT */
/*
 * From a position in a Python code object to a line of its source, by the code object's own table.
 *
 * CPython has had three kinds of table (enum tfmt_line_table); each is a list of ranges of code units
 * (16-bit instructions) with the change of line that goes with them. The tables come from a trace and are
 * not trusted.
 */
#ifndef VT_PYLINES_H
#define VT_PYLINES_H

#include "tracefmt/tracefmt.h"

/*
 * The line of the instruction at `position` (in code units). A position of -1 (the frame has not
 * started), one the table does not cover, and one that has no line give the code object's first line.
 */
uint32_t pylines_line(const struct tfmt_code *code, int32_t position);

/* A piece of source text: columns count bytes from 0, the end comes after it. */
struct pylines_span {
	uint32_t line, end_line, column, end_column;
	bool known;
};

/*
 * The expression that the instruction belongs to, of a call the whole call. false where the table does not tell, as
 * those before Python 3.11 do not.
 */
bool pylines_span(const struct tfmt_code *code, int32_t position, struct pylines_span *span);

/*
 * How far the statement is indented that the instruction at `position` belongs to: the first column on its line that it
 * and what runs after it have. So `f()` of "if x: f()" is further in than the line, and that of "y = f()" is not. false
 * as above.
 */
bool pylines_indentation(const struct tfmt_code *code, int32_t position, uint32_t *column);

/* How far the body of a function is indented, which does not begin on the function's first line. false as above. */
bool pylines_body(const struct tfmt_code *code, uint32_t *column);

#endif
