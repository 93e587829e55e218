/* SPDX-License-Identifier: MIT */
/*
 * Kept tensors: what one line has made in steps before is still there. `history.append(loss)` leaves a tensor of each step,
 * `if step % 10 == 0: kept.append(batch)` one of every tenth.
 */
#ifndef VT_KEPTTENSORS_H
#define VT_KEPTTENSORS_H

#include "analyzer/patterns/moment.h"

/* What steps have left of one place. */
struct kepttensors {
	uint32_t first, last, nr_steps;
	uint32_t longest; /* between two steps that left something */
	uint64_t bytes, blocks, graph_bytes;
	uint64_t graph_blocks;
	double freed; /* how often blocks alike were freed in a later step, times their bytes */
};

/* By place, and one more; to be freed. */
struct kepttensors *kepttensors_find(const struct moment *at);

/* Is a block of a step before? What the first one leaves is what training needs. */
bool kepttensors_is_of_step(const struct moment *at, size_t block);

/* How far apart the steps are that left something, on average. */
double kepttensors_interval(const struct kepttensors *k);

/* Has most steps left something, until lately? Or now and then: once an epoch, as regularly as a counter makes it? */
bool kepttensors_are_kept_on(const struct moment *at, const struct kepttensors *k);
bool kepttensors_are_kept_regularly(const struct moment *at, const struct kepttensors *k);

#endif
