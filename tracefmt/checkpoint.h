/* SPDX-License-Identifier: MIT */
/*
 * What a frame header says beside the frame's own sizes: where in the stream of events and in the ring file the
 * frame stands, and the totals before it. Not to be mixed up with CHECKPOINT frames (keep.h). Internal to tracefmt.
 */
#ifndef TFMT_CHECKPOINT_H
#define TFMT_CHECKPOINT_H

#include "tracefmt/tracefmt.h"

#define TFMT_NR_RINGS 2048                    /* rings beyond are not looked at */
#define TFMT_NR_DOMAINS (TFMT_NR_DEVICES + 1) /* a tensor domain per device, then the driver domain */
#define TFMT_DOMAIN_DRIVER TFMT_NR_DEVICES
#define TFMT_NR_HIGHEST 16 /* definition types whose highest id is kept */

struct tfmt_span {
	uint64_t from, to;
};

struct tfmt_checkpoint {
	uint64_t ordinal;                  /* of the frame's first event, or of the next one */
	uint64_t time;                     /* of the first event, in units of 1 << time_shift ns */
	uint64_t order[TFMT_NR_DOMAINS];   /* next order of each domain after the frame */
	uint64_t highest[TFMT_NR_HIGHEST]; /* highest id + 1 of each definition type, this frame's included */
	struct tfmt_totals totals;         /* before the frame */
	struct tfmt_span definitions;      /* bytes of the definition ring that the frame covers */
	uint32_t nr_given_up;              /* frames missing before this one, of which a repaired copy tells */
	uint32_t nr_dropped;               /* frames before this one that a flight recorder left out on purpose */
	uint32_t nr_left_out;              /* so many it has left out before this one in all, if that is told */
	uint32_t index_bytes;              /* of END: of the INDEX frames right before it */
	uint32_t nr_rings;
	struct tfmt_span ring[TFMT_NR_RINGS]; /* records of each ring that the frame covers */
};

/* Bytes that tfmt_checkpoint_put() may need: 2048 rings of 20 bytes, 321 totals of 12, and the rest. */
#define TFMT_CHECKPOINT_MAX (48u << 10)

/* Write the checkpoint's fields at p; returns the byte after them. */
uint8_t *tfmt_checkpoint_put(uint8_t *p, const struct tfmt_checkpoint *c);

/* Add what is not 0 of both after other fields; at most TFMT_DROPPED_MAX bytes. Returns the byte after them. */
#define TFMT_DROPPED_MAX 14
uint8_t *tfmt_checkpoint_put_dropped(uint8_t *p, uint32_t nr_dropped, uint32_t nr_left_out);

/* Read len bytes of fields; unknown ones are skipped. Returns 0 or TFMT_E_DAMAGED. */
int tfmt_checkpoint_get(struct tfmt_checkpoint *c, const uint8_t *bytes, size_t len);

#endif
