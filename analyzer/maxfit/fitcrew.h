/* SPDX-License-Identifier: MIT */
/*
 * Several tries at once, and the signals that reach us meanwhile. One that asks us to leave ends them all.
 */
#ifndef VT_FITCREW_H
#define VT_FITCREW_H

#include "analyzer/maxfit/fittry.h"

/* A try has ended: its result is there, unless it is moot. May make others moot. */
typedef void fitcrew_ended(struct fit_try *t, void *context);

/*
 * Run tries[nr], `jobs` at once, in their order. Those that are moot before their turn are left out. Returns 0,
 * CMD_TROUBLE after a message, or FITCREW_INTERRUPTED with *signal; none of them is left running in any case.
 */
#define FITCREW_INTERRUPTED 3
int fitcrew_run(struct fit_try **tries, size_t nr, unsigned jobs, const struct fit_plan *plan, fitcrew_ended *ended,
		void *context, int *signal);

#endif
