/* SPDX-License-Identifier: MIT */
/*
 * A plot of two quantities over time in the terminal: one drawn solid, the other, which is never less,
 * shaded above it. Block characters give eighths of a row; without UTF-8 the plot is ASCII.
 */
#ifndef VT_PLOT_H
#define VT_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct plot {
	const uint64_t *solid, *shaded; /* bytes, `columns` of each */
	uint32_t columns;               /* of the plot itself; PLOT_MARGIN more are used for the axis */
	uint32_t rows;
	uint64_t top_bytes; /* what the top of the plot stands for; at least 1 */
	uint64_t end_ns;    /* what its right edge stands for; the left edge is 0 */
	bool utf8, colored;
};

#define PLOT_MARGIN 12

/* Draw it with its axes, rows + 2 lines. */
void plot_print(FILE *out, const struct plot *p);

#endif
