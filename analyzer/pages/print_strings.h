/* SPDX-License-Identifier: MIT */
/* Every string that a recording holds, for `info --strings`. */
#ifndef VT_PRINT_STRINGS_H
#define VT_PRINT_STRINGS_H

#include "analyzer/recording/recording.h"
#include "analyzer/ui/emit.h"

/* Print each distinct string with what it is. Returns CMD_FINE, or CMD_TROUBLE after messages. */
int print_strings(struct emit *e, const struct recording *r);

#endif
