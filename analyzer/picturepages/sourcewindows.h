/* SPDX-License-Identifier: MIT */
/* Lines of the program's source around those that allocated, for those who asked that they be embedded. */
#ifndef VT_SOURCEWINDOWS_H
#define VT_SOURCEWINDOWS_H

#include "analyzer/picturepages/stacktable.h"
#include "analyzer/ui/jsonout.h"

/* The member "sources": null if nobody asked, else a list of stretches of lines. Files that were edited are left out. */
void print_sources(struct jsonout *j, const struct replay *m, const struct stacktable *t, bool is_asked);

#endif
