/* SPDX-License-Identifier: MIT */
/* Does a program keep within its limits? A *ruling* for each limit and GPU, and what they come to. */
#ifndef VT_RULINGS_H
#define VT_RULINGS_H

#include "analyzer/gate/compare.h"
#include "analyzer/gate/limits.h"

enum ruling_unit { UNIT_BYTES, UNIT_HUNDREDTHS /* of a percent */, UNIT_COUNT };

struct ruling {
	const char *limit;  /* "max-peak", "no-oom", "baseline" */
	const char *of;     /* what it limits: "peak", "live at the end", ... */
	const char *origin; /* "--max-peak", "vramtrace.toml:3", the baseline's path */
	const struct footprint_device *device;
	enum ruling_unit unit;
	uint64_t actual, allowed;
	bool has_before;
	uint64_t before; /* in the baseline */
	bool is_of_growth; /* from step to step */
	bool is_broken;
};

enum rulings_status { RULINGS_KEPT, RULINGS_BROKEN, RULINGS_UNKNOWN };
extern const char *const rulings_status_names[]; /* "pass", "fail", "unknown" */

struct rulings {
	enum rulings_status status;
	char reason[1024]; /* why it could not be told, also of a part; "" = it could */
	struct ruling *ruling; /* by device */
	size_t nr_rulings, nr_broken;
	struct compare compare;
	bool is_compared;
	uint64_t zero_answers; /* from the query */
};
#define RULINGS_INIT { 0 }

struct rulings_query {
	const struct limits *limits;
	const struct footprint *now;
	const struct footprint *baseline; /* NULL = none */
	const char *obstacle;             /* why nothing but running out of memory can be judged; NULL */
	const char *loss;                 /* why figures are "at least"; NULL */
	uint64_t zero_answers;            /* so many sizes were taken as 0: figures are lower bounds */
};

/* For rulings_release(). Points into the query's parts. */
void rulings_find(struct rulings *all, const struct rulings_query *q);
void rulings_release(struct rulings *all);

/* Is there a broken ruling about the device? */
bool rulings_is_broken(const struct rulings *all, const struct footprint_device *d);

/* What is shown of a device with a broken limit. */
enum blame {
	BLAME_GREW,   /* stacks that hold more at the peak than in the baseline */
	BLAME_LEAVES, /* without one, where growth is what broke a limit: what each step leaves behind */
	BLAME_HOLDS,  /* else: what they hold at the peak */
};
enum blame rulings_blame_kind(const struct rulings *all, const struct footprint_device *d);

/*
 * Stacks with most of that first, at most *nr; but for BLAME_GREW with before = NULL. A new array to be freed; *nr rows
 * of it are used.
 */
struct compare_stack *rulings_blame(const struct rulings *all, const struct footprint_device *d, uint32_t *nr);

#endif
