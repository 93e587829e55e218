/* SPDX-License-Identifier: MIT */
/* A text as JSON has it: quoted, escaped, what is not UTF-8 as U+FFFD. */
#ifndef VT_JSONTEXT_H
#define VT_JSONTEXT_H

#include <stdio.h>

/* NULL is written as null. */
void jsontext_write(FILE *out, const char *text);

#endif
