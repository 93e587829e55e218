/* SPDX-License-Identifier: MIT */
/*
 * Of the stacks that grow from step to step, the causes: places in the source, what their blocks are, and which of
 * them one autograd graph holds. The second half of stepgrowth.h, which fills in what it needs.
 */
#ifndef VT_STEPCAUSES_H
#define VT_STEPCAUSES_H

#include "analyzer/growth/stepgrowth.h"

/* Stacks are numbered here, by what groups of the device have in common but for the shape. */
struct stepcauses {
	const struct replay *replay;
	const struct replay_device *of;
	struct replay_process *process;
	struct books *books;
	uint32_t device;
	bool is_stepless;
	const struct stepsample_series *series;
	size_t nr_readings;
	uint32_t *of_group;    /* the number of each group's stack; UINT32_MAX: not counted */
	uint32_t *first_group; /* of each stack */
	uint32_t nr_stacks;
	double *bytes, *blocks; /* [stack * nr_readings + reading] */
	double *asked;          /* likewise, bytes before the allocator's rounding */
	uint32_t *growing;      /* stacks */
	uint32_t nr_growing;
};

/* Fill g->cause. */
void stepcauses_find(struct stepgrowth *g, const struct stepcauses *c);
void stepcauses_release(struct stepcauses *c);

#endif
