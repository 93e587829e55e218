/* SPDX-License-Identifier: MIT */
/*
 * What a device's caching allocator has, as PyTorch's own snapshots show it: segments by address, in each the blocks that it
 * is cut into, live or not. Of an expandable segment each range without a hole is one.
 */
#ifndef VT_SEGMENTLIST_H
#define VT_SEGMENTLIST_H

#include "analyzer/allocator/segments.h"

struct segmentlist_segment {
	uint64_t address, size;
	uint64_t live_bytes, pending_bytes, requested_bytes;
	uint32_t private_id; /* SEGMENTS_SHARED, or a graph's */
	uint16_t stream;
	bool is_small, is_expandable;
	size_t first_block, nr_blocks;
};

struct segmentlist {
	struct segmentlist_segment *segment;
	size_t nr_segments, segments_room;
	struct segments_block *block;
	size_t nr_blocks, blocks_room;
};

/* As things stand in *s. To be released. */
void segmentlist_make(struct segmentlist *l, const struct segments *s);

/* Add a live block that is a segment of its own. */
void segmentlist_add(struct segmentlist *l, const struct segments_request *block);
void segmentlist_release(struct segmentlist *l);

#endif
