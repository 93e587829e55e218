/* SPDX-License-Identifier: MIT */
/*
 * How a job went, for a flight recorder that drops its beginning: what had been counted when backward passes began, of
 * all of them or, later, of every 2nd, 4th, ... so that there is room. In checkpoints they are further rows of figures
 * (FORMAT.md). Internal to tracefmt.
 */
#ifndef TFMT_PASSES_H
#define TFMT_PASSES_H

#include "tracefmt/tracefmt.h"

#define TFMT_FIGURES_PASSES (TFMT_FIGURES_PROCESS + 1) /* the first of their rows */

/* Zeroed, there are none. */
struct tfmt_passes {
	struct tfmt_pass of[TFMT_NR_DEVICES][TFMT_PASSES_MAX];
	uint32_t nr;       /* moments, of all devices */
	uint64_t distance; /* in passes, from one to the next; 0 = there is none yet */
};

/* An outermost backward pass begins: the number-th, from 1. What had been counted, and what is live. */
void tfmt_passes_note(struct tfmt_passes *p, uint64_t number, uint64_t time_ns, const struct tfmt_figures *figures,
		      const struct tfmt_totals *totals);

/* Write them behind other figures, as far as there is room. Returns the byte behind. */
uint8_t *tfmt_passes_put(const struct tfmt_passes *p, uint8_t *at, const uint8_t *end);

/* Take in one value of one of their rows; what is not known is skipped. */
void tfmt_passes_take(struct tfmt_passes *p, uint64_t figure, uint64_t row, uint64_t value);

#endif
