/* SPDX-License-Identifier: MIT */
/* What censuses of the program's objects lie beside a trace, for `info`. */
#ifndef VT_PRINT_CENSUSES_H
#define VT_PRINT_CENSUSES_H

#include "analyzer/ui/emit.h"
#include "tracefmt/tracefmt.h"

/* A line of text, and the array "censuses"; nothing where there is none. */
void print_censuses(struct emit *e, const char *trace, struct tfmt_reader *reader);

#endif
