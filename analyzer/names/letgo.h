/* SPDX-License-Identifier: MIT */
/* The one line of a program that would let go of what it keeps, where who keeps it makes that certain. */
#ifndef VT_LETGO_H
#define VT_LETGO_H

#include "analyzer/names/namegroups.h"

/*
 * "history.clear()", "losses.append(x.detach()) in place of x": as it would stand in the program. of_graph: it is the graph that
 * is to go, not the tensors. Returns buf; NULL: nothing is certain to do it.
 */
const char *letgo_text(char *buf, size_t size, const struct namegroup *g, bool of_graph);

#endif
