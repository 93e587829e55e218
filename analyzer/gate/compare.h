/* SPDX-License-Identifier: MIT */
/*
 * What is different between two footprints, device by device.
 *
 * Stacks are matched by what survives an edit: first those that are the same, then those whose blocks the program calls by the
 * same name (names.h), wherever it makes them, then those with the same functions along the stack in another line or file, then those of the same function whose callers are mostly the same, then
 * those whose callers are mostly the same and whose blocks are of the same shape and number (a renamed function). Of
 * several candidates the one with the nearest shape, size and line is taken.
 */
#ifndef VT_COMPARE_H
#define VT_COMPARE_H

#include "analyzer/gate/footprint.h"

/* A stack in both, or in one of them. */
struct compare_stack {
	const struct footprint_stack *before, *after; /* NULL: not there */
	int64_t grown_bytes;
};

struct compare_part {
	const char *name;
	uint64_t before, after;
};

/* A device of both footprints. */
struct compare_device {
	const struct footprint_device *before, *after;
	struct compare_stack *stack; /* those that grew most first, unchanged ones included; then by name */
	uint32_t nr_stacks;
	struct compare_part *part[NR_BREAKDOWNS]; /* by name */
	uint32_t nr_parts[NR_BREAKDOWNS];
	int64_t left_out_grown_bytes; /* of stacks too small to be listed in a baseline */
};

/* A fact in which two footprints should agree. */
struct compare_fact {
	char what[64]; /* "torch" */
	char before[128], after[128];
};

struct compare {
	struct compare_device *device; /* those that both have */
	uint32_t nr_devices;
	struct compare_fact *fact; /* in which they differ: then comparing says little */
	uint32_t nr_facts;
};
#define COMPARE_INIT { 0 }

/* For compare_release(). Points into both footprints. */
void compare_footprints(struct compare *c, const struct footprint *before, const struct footprint *after);
void compare_release(struct compare *c);

/* The comparison of one of after's devices; NULL if before does not have it. */
const struct compare_device *compare_of(const struct compare *c, const struct footprint_device *after);

/* How much something may grow: so many bytes, or so many percent of what it was. */
struct tolerance {
	bool is_percent;
	double percent;
	uint64_t bytes;
};
uint64_t tolerance_of(const struct tolerance *t, uint64_t bytes);

#endif
