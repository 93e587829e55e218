/* SPDX-License-Identifier: MIT */
/* An estimate: each term in GiB and GB with its formula and its known error, beside a measurement if there is
 * one. */
#ifndef VT_PRINT_ESTIMATE_H
#define VT_PRINT_ESTIMATE_H

#include <stdint.h>

#include "analyzer/estimate/modelconfig.h"
#include "analyzer/estimate/sizing.h"
#include "analyzer/ui/emit.h"

/* What a recording says. */
struct estimate_measured {
	bool is_known, is_simulated, is_exact;
	uint64_t allocated_bytes, reserved_bytes, driver_bytes;
};

struct estimate {
	struct sizing_job job;
	struct sizing sizing;
	struct modelconfig config;
	bool has_config;
	bool is_frozen[MODELPARTS]; /* parts that are not trained: as modelconfig_part() numbers them */
	const char *precision, *optimizer; /* their names */
	uint64_t capacity_bytes;           /* 0: not given */
	struct estimate_measured measured, against;
};

void print_estimate(struct emit *e, const struct estimate *x);

#endif
