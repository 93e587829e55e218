/* SPDX-License-Identifier: MIT */
/*
 * All memory in use on a device at the driver's peak: PyTorch's, that of each other library, NCCL's by communicator,
 * and what no call took. The parts add up to what the driver says is in use.
 */
#ifndef VT_OUTSIDE_H
#define VT_OUTSIDE_H

#include "analyzer/ledger/books.h"
#include "analyzer/replay/replay.h"

struct outside {
	uint64_t owner[NR_OWNERS];    /* the driver ledger; the sum is its peak */
	uint64_t modelled[NR_OWNERS]; /* what of that, and of context and code, a simulated device models */
	bool is_modelled;             /* some of it is */
	bool is_sampled;              /* the driver was asked: `parts` is all there is to know */
	struct residual_parts parts;
	uint64_t process_bytes;       /* what nvidia-smi shows for this process then */
	bool has_process, is_measured; /* process_bytes is known; by NVML, not by adding up */
	struct communicators nccl;    /* by number; 0 the rest */
};

/* To be released with outside_release(). */
void outside_find(struct outside *o, const struct replay_device *d);
void outside_release(struct outside *o);

/* Driver memory at the driver's peak by owner, modelled memory of libraries included; the sum is the peak. */
void outside_owners(const struct replay_device *d, uint64_t bytes[static NR_OWNERS]);

/* What of the device is modelled, context and code too, at the driver's peak by owner; false if nothing is. */
bool outside_modelled(const struct replay_device *d, uint64_t bytes[static NR_OWNERS]);

#endif
