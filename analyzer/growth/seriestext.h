/* SPDX-License-Identifier: MIT */
/*
 * A series of readings from a text: "step,bytes" lines, or a training log's lines that name a step and
 * memory.
 *
 * A line of the second kind has a *step word* ("Step 100:", "'global_step': 100", "iter=100") and a *memory
 * word*
 * ("Memory=18.2GB", "gpu_mem_gb: 18.2", "max mem: 18200M"), each with the number after it; the rest is
 * ignored. What cannot be read is counted, by reason. Memory is bounded however long the text is: a long
 * series is thinned out, neighbours becoming their mean. Single-threaded.
 */
#ifndef VT_SERIESTEXT_H
#define VT_SERIESTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/growth/growth.h"

enum seriestext_trouble {
	SERIESTEXT_NO_NUMBER, /* not a line of either kind, where others are: most of a log */
	SERIESTEXT_NO_UNIT,   /* "Memory=18.2": of what? */
	SERIESTEXT_NEGATIVE,
	SERIESTEXT_NOT_FINITE, /* NaN, infinity, or beyond 2^63 */
	SERIESTEXT_NR_TROUBLES
};

/* How to read numbers; zero is the usual. */
struct seriestext_rules {
	double unit_bytes; /* of numbers without a unit; 0: bytes in "step,bytes", else there must be one */
	bool unit_is_decimal;
	bool is_binary;  /* GB is 2^30, as most logs mean it that divide by 1024**3 */
	const char *key; /* the memory word to read; NULL: any, those of peaks last */
};

struct seriestext {
	struct growth_reading reading[GROWTH_READINGS_MAX]; /* sorted by step */
	size_t nr;
	uint64_t nr_lines, nr_readings, thinned; /* readings that one of `reading` stands for */
	uint64_t trouble[SERIESTEXT_NR_TROUBLES];
	uint64_t nr_unordered; /* lines whose step is less than the one's before: sorted */
	uint64_t nr_restarts; /* the step went up, then back to less than half: an earlier run, left out */
	bool is_counted;      /* no line names a step: they are numbered from 1 */
	bool is_decimal;      /* the first unit was GB, MB or kB, read as powers of 1000 */
	int decimals;         /* of the readings as written, at most 6 */
};

/* Read to the end of `in`. 0, or a negative errno that reading failed with. */
int seriestext_read(struct seriestext *s, const struct seriestext_rules *rules, FILE *in);

/* Bytes of a unit: "GiB", "MB", "G", "bytes"; 0 if it is none. *is_decimal: as in struct seriestext. */
double seriestext_unit(const char *unit, size_t length, bool is_binary, bool *is_decimal);

#endif
