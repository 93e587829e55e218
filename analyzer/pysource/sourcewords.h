/* SPDX-License-Identifier: MIT */
/* Words and assignments in a line of source, which is not parsed further. */
#ifndef VT_SOURCEWORDS_H
#define VT_SOURCEWORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Is it a character of a name or number? */
bool sourcewords_is_part(char c);

/* What the line assigns: the text after its first "=" outside of brackets. NULL: it is no assignment. */
const char *sourcewords_assigned(const char *text, size_t len);

#endif
