/* SPDX-License-Identifier: MIT */
/* leaks --series: the growth of a series of readings, from a text instead of a recording. */
#ifndef VT_LEAKS_SERIES_H
#define VT_LEAKS_SERIES_H

#include "analyzer/pages/print_growth.h"

struct leaks_series_opts {
	const char *path; /* "-": stdin */
	const char *unit, *key;
	bool is_binary, exit_code;
	struct growth_limits limits;
	struct emit_opts emit;
};

/* Returns the exit status. */
int leaks_series(const struct leaks_series_opts *o);

#endif
