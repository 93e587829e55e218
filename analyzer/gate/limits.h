/* SPDX-License-Identifier: MIT */
/*
 * Limits on what a program may take: from options, and from a file in TOML that is checked in with the program. Both
 * have the same names and write values alike:
 *
 *	[check]
 *	max-peak = "20GiB, rank0=24GiB"       # --max-peak 20GiB,rank0=24GiB
 *	max-fragmentation = "10%"
 *	no-oom = true
 *	baseline = "memory-baseline.toml"     # beside this file
 *	tolerance = "2%"
 *
 * A size or percentage may stand for one rank (`rank0=`) or one GPU of each process (`gpu0=`); the one that names more
 * counts. An option counts before the file.
 */
#ifndef VT_LIMITS_H
#define VT_LIMITS_H

#include <limits.h>

#include "analyzer/gate/compare.h"
#include "analyzer/purpose/category_rules.h"

#define LIMITS_FILE "vramtrace.toml" /* read where it is there */

enum limit_kind {
	LIMIT_PEAK,
	LIMIT_RESERVED,
	LIMIT_DEVICE_USED,
	LIMIT_GROWTH,
	LIMIT_FRAGMENTATION,
	LIMIT_CATEGORY,
	LIMIT_NO_LEAKS, /* nothing grows from step to step; without steps, nothing is live at the end */
	LIMIT_NO_OOM,  /* none that the program failed of */
	LIMIT_ANY_OOM, /* none at all */
	NR_LIMIT_KINDS,
};
extern const char *const limit_names[NR_LIMIT_KINDS]; /* "max-peak" */

/* What the user asked for, as texts; NULL = nothing. */
struct limit_opts {
	const char *max_peak, *max_reserved, *max_device_used, *max_growth, *max_fragmentation, *max_category, *baseline,
		*tolerance, *file;
	bool no_leaks, no_oom, any_oom;
	bool force; /* compare with a baseline of another GPU or version; not an option of all commands */
};

struct limit {
	enum limit_kind kind;
	enum category category; /* of LIMIT_CATEGORY */
	int64_t rank, gpu;  /* -1 = any */
	uint64_t most;      /* bytes, a number, or hundredths of a percent */
	char origin[64];    /* "--max-peak", "vramtrace.toml:3" */
};

struct limits {
	struct limit *limit;
	size_t nr_limits;
	char baseline[PATH_MAX]; /* "" = none */
	struct tolerance tolerance;
	bool force;
};
#define LIMITS_INIT { 0 }

/* Is there anything in it? */
bool limits_asked_for(const struct limit_opts *opts);

/*
 * Understand options and file. Returns 0, or CMD_TROUBLE after a message: a value that is none, or no limit at all.
 * limits_release() is needed either way.
 */
int limits_take(struct limits *l, const struct limit_opts *opts);
void limits_release(struct limits *l);

/* "2%", "0.5%": into hundredths of a percent; at most 1000%. False after writing why into why[size]. */
bool limits_parse_percent(const char *text, uint64_t *hundredths, char *why, size_t size);

/* The same, or "64MiB", "20GiB": a size with its unit. */
bool limits_parse_tolerance(const char *text, struct tolerance *t, char *why, size_t size);

/* The limit of a kind (and category) that counts for a device; NULL = there is none. */
const struct limit *limits_of(const struct limits *l, enum limit_kind kind, enum category category,
			      const struct footprint_device *d);

/* A limit that is for a rank or GPU which the footprint does not have; NULL = there is none. */
const struct limit *limits_idle(const struct limits *l, const struct footprint *f);

#endif
