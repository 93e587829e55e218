/* SPDX-License-Identifier: MIT */
/*
 * Page-locked memory of the host, as snapshots since PyTorch 2.14 have it where that was asked for: what PyTorch's
 * allocator for it has taken from the driver, and when. As with devices the beginning follows from the end.
 */
#ifndef VT_SNAPSHOTHOST_H
#define VT_SNAPSHOTHOST_H

#include "analyzer/imports/addressmap.h"
#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/tracemaker.h"

/* Zero it before the first use. */
struct snapshothost {
	struct addressmap now;
	size_t next;             /* the next entry */
	uint64_t nr_unexplained; /* pieces of now that the end does not have, and the other way round */
};

/* Write what was there before the first entry. */
void snapshothost_begin(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns);

/* Write what the entries say up to a time; UINT64_MAX: all of them, and what they leave open. */
void snapshothost_until(struct snapshothost *h, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns);
void snapshothost_release(struct snapshothost *h);

#endif
