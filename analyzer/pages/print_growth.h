/* SPDX-License-Identifier: MIT */
/* A series of readings, whether it grows, and when memory runs out: text and JSON. */
#ifndef VT_PRINT_GROWTH_H
#define VT_PRINT_GROWTH_H

#include "analyzer/growth/growth.h"
#include "analyzer/growth/seriestext.h"
#include "analyzer/ui/emit.h"

/* What growth is measured against. Zero: not given. */
struct growth_limits {
	uint64_t capacity_bytes, context_bytes;
	double horizon_steps;
	/* --warn-growth: more than a share of the level, or than so many bytes, in so many steps. */
	double warn_share, warn_bytes, warn_steps;
};

/* "5%/10steps", "100MiB/10steps". false: it is neither. */
bool growth_limits_parse_warning(struct growth_limits *l, const char *text);

/* NaN without a capacity. */
double growth_limits_bytes(const struct growth_limits *l);

/* Is growth more than a note: is the limit within the horizon, or has it exceeded 1% of the largest reading?
 */
bool growth_is_finding(const struct growth *g, const struct seriestext *s, const struct growth_limits *l);
/* Is it more than --warn-growth allows? */
bool growth_is_warned(const struct growth *g, const struct seriestext *s, const struct growth_limits *l);

/* JSON: one of growth's fits, null if it is none; whole: also what the choice between fits went by. */
void json_growth_fit(struct emit *e, const char *key, const struct growth_fit *f, bool is_whole);

void print_growth(struct emit *e, const struct growth *g, const struct seriestext *s,
		  const struct growth_limits *l);

#endif
