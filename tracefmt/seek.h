/* SPDX-License-Identifier: MIT */
/*
 * Places in a trace from which it can be read on, as if all before had been read, and the index that lists them.
 * FORMAT.md, "The index". Internal to tracefmt.
 */
#ifndef TFMT_SEEK_H
#define TFMT_SEEK_H

#include <stdint.h>

/* What an INDEX frame lists. */
enum tfmt_index_list {
	TFMT_INDEX_CHECKPOINTS = 1,
	TFMT_INDEX_DEFINITIONS = 2, /* their frames: of a place only the offset */
};

/* A checkpoint: its first frame. */
struct tfmt_place {
	uint64_t offset;
	uint64_t ordinal;  /* of the event that follows it */
	uint64_t time_ns;  /* the latest of any event before it, CLOCK_MONOTONIC */
	uint32_t sequence;
};

#endif
