/* SPDX-License-Identifier: MIT */
/* `peak --spans`: the peaks within spans of time, as a table. */
#ifndef VT_PRINT_SPANS_H
#define VT_PRINT_SPANS_H

#include "analyzer/holders/spans.h"
#include "analyzer/ui/emit.h"

/* Print a whole document. Returns the command's exit status. */
int print_spans(const struct replay *m, const struct spans *s, const struct emit_opts *opts);

#endif
