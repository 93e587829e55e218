/* SPDX-License-Identifier: MIT */
/* What a recording says that it does not have: processes that did not record, and calls past the hooks. */
#ifndef VT_PRINT_MISSING_H
#define VT_PRINT_MISSING_H

#include "analyzer/ledger/books.h"
#include "analyzer/recording/unrecorded.h"
#include "analyzer/ui/emit.h"

/* As an array "unrecorded", and in text a line for each. */
void print_unrecorded(struct emit *e, const struct unrecorded *list, size_t nr);

/* "unhooked": { "allocs", "bytes", "frees", "others" }. */
void print_unhooked_calls(struct emit *e, const struct unhooked *u);

#endif
