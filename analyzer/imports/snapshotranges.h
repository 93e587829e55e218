/* SPDX-License-Identifier: MIT */
/*
 * What a snapshot says beside memory: the program's own label of the moment (user_metadata) and PyTorch's annotations, such
 * as "Optimizer.step#Adam.step", as ranges; those of optimizers as phases, too.
 */
#ifndef VT_SNAPSHOTRANGES_H
#define VT_SNAPSHOTRANGES_H

#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/tracemaker.h"

struct snapshotranges_open {
	uint32_t name;
	uint64_t id;
	uint8_t device;
};

/* Zero it before the first use. */
struct snapshotranges {
	size_t next;     /* the next annotation */
	uint64_t nr_ids; /* of ranges */
	uint32_t label[TFMT_NR_DEVICES];
	uint64_t label_id[TFMT_NR_DEVICES];
	struct snapshotranges_open *open; /* annotations that have begun */
	size_t nr_open, open_room;
	uint32_t depth; /* of phases */
};

/* The label of a device is this one from now on; 0 = none. */
void snapshotranges_label(struct snapshotranges *r, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns,
			  uint32_t device, uint32_t label);

/* Write what the annotations say up to a time. */
void snapshotranges_until(struct snapshotranges *r, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns);
void snapshotranges_release(struct snapshotranges *r);

#endif
