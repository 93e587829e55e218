/* SPDX-License-Identifier: MIT */
/*
 * The places in a program that depend on data: there the host read values that, on a real device, kernels would
 * have computed, and only there can a simulated run take another way than a real one.
 */
#ifndef VT_READPLACES_H
#define VT_READPLACES_H

#include "analyzer/replay/replay.h"

struct readplace {
	bool known;              /* it has a frame */
	struct stack_frame site; /* its strings belong to the replay */
	uint64_t reads, bytes;
	uint64_t first_ns; /* on the recording's clock */
};

struct readplaces {
	struct readplace *place; /* in order of first read */
	size_t nr_places, room;
	uint64_t reads; /* of all */
};
#define READPLACES_INIT { 0 }

/*
 * The places of one process, or (process NULL) of all together, where places of the same file, line and
 * function are one. To be released with readplaces_release().
 */
void readplaces_find(struct readplaces *p, const struct replay *m, struct replay_process *process);
void readplaces_release(struct readplaces *p);

#endif
