/* SPDX-License-Identifier: MIT */
/*
 * How a job went, for a flight recorder that drops its beginning: what had been counted when each outermost backward
 * pass began. The recorder's history gathers it in batches, each a definition that stays when events are dropped
 * (FORMAT.md, PASSES). Internal to tracefmt.
 */
#ifndef TFMT_PASSES_H
#define TFMT_PASSES_H

#include "tracefmt/tracefmt.h"

#define TFMT_PASSES_BATCH_BYTES (32u << 10)

struct tfmt_cursor;

/* ---- gathering: zeroed, there are none ------------------------------------------------------- */

struct tfmt_passes {
	uint64_t peak[TFMT_NR_DEVICES + 1]; /* the most since the latest pass told of; the last: of no device */
	struct tfmt_pass last[TFMT_NR_DEVICES]; /* of the batch: what the next one is a difference to */
	uint32_t nr;       /* told of so far, over all devices */
	uint32_t id;       /* of the batch */
	uint64_t distance; /* one in so many is told of; 0 = none is yet */
	size_t batch_bytes;
	uint8_t batch[TFMT_PASSES_BATCH_BYTES];
};

/* The number-th outermost backward pass begins, from 1. What had been counted, and what is live. */
void tfmt_passes_note(struct tfmt_passes *p, uint64_t number, uint64_t time_ns, const struct tfmt_figures *figures,
		      const struct tfmt_totals *totals);

/* So much is in the batch that it should be written soon: beyond its end passes are left out. */
static inline bool tfmt_passes_fill(const struct tfmt_passes *p)
{
	return p->batch_bytes > TFMT_PASSES_BATCH_BYTES / 2;
}

/* The batch has been written: begin another. */
void tfmt_passes_next(struct tfmt_passes *p);

/* ---- reading ---------------------------------------------------------------------------------- */

struct tfmt_pass_list {
	struct tfmt_pass *pass;
	uint32_t nr;
	size_t room;
};

/*
 * Add a batch to the lists of all devices, as far as there is room for it: what a recorder never writes is left out.
 * Returns 0, TFMT_E_NOMEM, or TFMT_E_DAMAGED: what precedes the damage is there.
 */
int tfmt_passes_read(struct tfmt_pass_list list[TFMT_NR_DEVICES], struct tfmt_cursor *c);

#endif
