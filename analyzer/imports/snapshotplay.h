/* SPDX-License-Identifier: MIT */
/*
 * One device of a snapshot, from the beginning of its entries to their end: what was there before the first, and how large
 * each block was, of which entries tell only what was asked for.
 *
 * The beginning follows from the end, which the snapshot has exactly, by undoing the entries one by one. Sizes follow from
 * where a block lay: what the allocator rounds to, or all that was free there where it would not have cut off the rest.
 */
#ifndef VT_SNAPSHOTPLAY_H
#define VT_SNAPSHOTPLAY_H

#include "analyzer/allocator/segments.h"
#include "analyzer/imports/addressmap.h"
#include "analyzer/imports/pageranges.h"
#include "analyzer/imports/snapshot.h"

/* Memory of a device at one moment. */
struct snapshotmemory {
	struct addressmap blocks;
	struct addressmap segments; /* but expandable ones */
	struct pageranges pages;    /* what is mapped of expandable segments */
};

struct snapshotplay {
	const struct snapshot *s;
	uint32_t device;
	struct snapshotmemory now, end; /* end: as the snapshot has it */
	struct addressmap late;         /* blocks of the end that came after the entries */
	struct pageranges reach;        /* all that is ever mapped of expandable segments */
	struct segments cut;            /* `now`, as it is cut up */
	uint64_t allocated, reserved;   /* of now */
	uint64_t nr_unexplained;        /* blocks and segments of `now` that the end does not have, and the other way round */
};

/* `now` is the beginning: segments and pages, and blocks that are not placed yet. */
void snapshotplay_begin(struct snapshotplay *p, const struct snapshot *s, uint32_t device);
void snapshotplay_release(struct snapshotplay *p);

/* Memory comes and goes. */
void snapshotplay_take(struct snapshotplay *p, struct addressmap_entry segment);
void snapshotplay_give(struct snapshotplay *p, uint64_t address);
void snapshotplay_map(struct snapshotplay *p, uint64_t address, uint64_t size);
void snapshotplay_unmap(struct snapshotplay *p, uint64_t address, uint64_t size);

/*
 * A block comes: returns its size. b->size is what it is if that is known, else 0. A block that is live there must have
 * been freed before.
 */
uint64_t snapshotplay_alloc(struct snapshotplay *p, struct addressmap_entry b);

/* The size of an ALLOC's block if the snapshot has it, else 0. */
uint64_t snapshotplay_known_size(const struct snapshotplay *p, const struct snapshot_entry *e);

/* A block is freed: for good, or its memory waits for other streams. */
void snapshotplay_free(struct snapshotplay *p, uint64_t address, bool is_pending);

/* What the allocator takes from the driver for a block of so many bytes. */
uint64_t snapshotplay_segment_bytes(const struct snapshotplay *p, uint64_t requested);

/* Pages of the range that holds an address. */
uint64_t snapshotplay_page_bytes(const struct snapshotplay *p, uint64_t address);

#endif
