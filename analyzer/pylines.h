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

#endif
