/* SPDX-License-Identifier: MIT */
/*
 * Which processes are recorded, by name: VRAMTRACE_FILTER is a list of patterns, separated by commas. A process is
 * recorded if one of its names matches one of them (or there are none) and none matches a pattern with a `!` before it.
 * In patterns * stands for any text, ? for one character; nothing else is special.
 */
#ifndef IP_FILTER_H
#define IP_FILTER_H

#include <stdbool.h>

/* Whether a process of these names (NULL or "" = none) is recorded; an empty filter admits all. No malloc. */
bool ip_filter_admits(const char *filter, const char *const *names, unsigned nr_names);

#endif
