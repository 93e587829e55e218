/* SPDX-License-Identifier: MIT */
/*
 * Memory that a device's driver gave, piece by piece: from when to when, where, and whose call took it. PyTorch's
 * allocator takes segments so, and pages of expandable ones. Pieces that each serve one tensor are left out: they are
 * the tensors.
 */
#ifndef VT_DRIVERSPANS_H
#define VT_DRIVERSPANS_H

#include "analyzer/replay/replay.h"

#define DRIVERSPANS_LIVE UINT64_MAX /* until_ns of a piece that was not given back */

struct driverspan {
	uint64_t from_ns, until_ns; /* on the recording's clock */
	uint64_t address, bytes;
	uint64_t begun_by, ended_by; /* ordinals of the events; while it lives, the latter is TFMT_NO_ORDINAL */
	uint32_t group;    /* of the process's books */
	uint8_t device;    /* ordinal */
	uint8_t space;     /* enum block_space */
};

/* Those of one process. Zeroed: empty. */
struct driverspans {
	struct driverspan *span; /* live and ended ones, in no order */
	size_t nr_spans, room;
	uint64_t nr_left_out; /* ended ones that were dropped, the smallest first */
	struct blocks *live;  /* private: by address, their ordinal the place in span[] */
};

/* The event has been entered in the process's books. */
void driverspans_observe(struct driverspans *s, const struct replay_process *process, const struct tfmt_event *ev,
			 uint64_t time_ns);
void driverspans_release(struct driverspans *s);

#endif
