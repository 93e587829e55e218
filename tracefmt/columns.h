/* SPDX-License-Identifier: MIT */
/*
 * Events as columns: the payload of an EVENTS frame. An encoder collects events and lays them out when
 * the frame is written; a decoder hands them out one by one. Neither knows what is live: a free's block
 * arrives as alloc_ordinal and leaves as an age. Internal to tracefmt.
 */
#ifndef TFMT_COLUMNS_H
#define TFMT_COLUMNS_H

#include "tracefmt/tracefmt.h"
#include "tracefmt/varints.h"

/* Column ids in the payload. */
enum tfmt_column {
	TFMT_COLUMN_CLASSES = 1, /* the frame's dictionary of distinct (kind, device, flags, ...) */
	TFMT_COLUMN_CLASS = 2,   /* per event from here on */
	TFMT_COLUMN_TIME = 3,
	TFMT_COLUMN_PYTHON = 4,
	TFMT_COLUMN_NATIVE = 5,
	TFMT_COLUMN_AGE = 6,     /* frees only */
	TFMT_COLUMN_ADDRESS = 7, /* from here on: all but matched frees */
	TFMT_COLUMN_SIZE = 8,
	TFMT_COLUMN_SHAPE = 9,
	TFMT_COLUMN_AUX = 10, /* all events */
	TFMT_NR_EVENT_COLUMNS,
	TFMT_COLUMN_ORDINAL = TFMT_NR_EVENT_COLUMNS, /* of checkpoints, whose events do not follow one another */
	TFMT_COLUMN_FIGURES = 12, /* of checkpoints: struct tfmt_figures */
	TFMT_NR_COLUMNS
};

/* What many events share; the frame stores each distinct one once. */
struct tfmt_class {
	uint64_t aux; /* of the class's latest event */
	uint32_t thread;
	uint16_t stream, function, flags;
	uint8_t kind, device;
};
#define TFMT_NR_CLASSES 1024 /* most in one frame */

#define TFMT_NR_LAST_CLASSES 64

struct tfmt_encoder {
	uint8_t *column[TFMT_NR_COLUMNS]; /* TFMT_FRAME_RAW_MAX bytes each; not for ADDRESS and SIZE */
	uint8_t *end[TFMT_NR_COLUMNS];
	uint64_t *address; /* of the events that carry one: encoded last, over their common power of two */
	uint64_t *size;    /* likewise */
	uint32_t nr_addresses;
	uint64_t any_address, any_size; /* bits set in any of them */
	uint64_t last_address;
	uint32_t nr_events;
	uint32_t bytes; /* upper bound of the payload so far */
	uint8_t time_shift;
	bool puts_ordinals; /* for a checkpoint */
	enum tfmt_way way;
	uint64_t last_ordinal;
	uint64_t first_time, last_time; /* in units */
	uint32_t nr_classes;
	uint16_t last_class[TFMT_NR_LAST_CLASSES]; /* found latest, by hash */
	struct tfmt_class class[TFMT_NR_CLASSES];
	uint16_t class_index[2 * TFMT_NR_CLASSES]; /* by hash: class + 1 */
};

/*
 * Bytes of the memory tfmt_encoder_init() divides among the columns. They begin a few cache lines further than
 * a power of two: an event's bytes lie at similar offsets of all columns, and would share one set of the cache.
 */
#define TFMT_COLUMN_STRIDE (TFMT_FRAME_RAW_MAX + 5 * (size_t)64)
#define TFMT_ENCODER_MEMORY (TFMT_NR_COLUMNS * TFMT_COLUMN_STRIDE + 16 * (size_t)TFMT_FRAME_RAW_MAX)

void tfmt_encoder_init(struct tfmt_encoder *e, void *memory, uint8_t time_shift);

/* TFMT_WAY_WIDE: count the addresses and sizes from this one on, as encode.c does the portable way. */
void tfmt_count_blocks_wide(struct tfmt_encoder *e, uint32_t from);

/* Events that are certain to fit now, at most TFMT_WRITER_BATCH. */
uint32_t tfmt_encoder_room(const struct tfmt_encoder *e);

/* Add so many events at most, whose ordinals and alloc_ordinals are set. */
void tfmt_encoder_add(struct tfmt_encoder *e, const struct tfmt_event *ev, uint32_t nr);

/* True when no more than TFMT_WRITER_AHEAD more events are certain to fit. */
bool tfmt_encoder_is_full(const struct tfmt_encoder *e);

/* Lay out the payload at out (TFMT_FRAME_RAW_MAX bytes), empty the encoder, return the payload's length. */
size_t tfmt_encoder_finish(struct tfmt_encoder *e, uint8_t *out);

#define TFMT_BATCH 256 /* events that a decoder takes from all columns before it hands out the first */

/* A class as a decoder has it; in as few cache lines as can be. */
struct tfmt_pattern {
	/* the latest of the class, as far as the next one is like it: copied as a whole */
	_Alignas(64) struct tfmt_event event;
	bool is_free; /* its events have an age */
};

struct tfmt_decoder {
	struct tfmt_cursor column[TFMT_NR_COLUMNS];
	bool present[TFMT_NR_COLUMNS];
	uint8_t address_shift, size_shift, time_shift;
	bool one_by_one;            /* what follows is damaged: batches of one event find the place */
	bool is_checkpoint;         /* ordinals come from their column */
	bool is_plain;              /* no event is of an unknown kind, of the past, or tells of lost ones */
	uint32_t nr_events, index;  /* of the frame; handed out */
	uint32_t nr_ready;          /* decoded, of which index are handed out */
	uint32_t batch;             /* index of event[0] */
	uint64_t ordinal, time, address;
	uint32_t nr_classes;
	struct tfmt_pattern pattern[TFMT_NR_CLASSES]; /* what is above begins anew with each frame */
	uint64_t free_classes[TFMT_NR_CLASSES / 64];  /* a bit for each class, set in those of frees */
	enum tfmt_way way;                            /* the owner's to set */
	uint64_t value[TFMT_NR_COLUMNS][TFMT_BATCH]; /* the batch, column by column; one that is not there is all 0 */
	struct tfmt_event event[TFMT_BATCH];         /* the same batch, event by event */
};

/*
 * Begin with a payload of nr_events that stays valid while decoding, and after which TFMT_VARINTS_AHEAD bytes can be
 * read. first_ordinal and first_time (in units of 1 << time_shift) come from the frame header; the events of a
 * checkpoint have ordinals of their own, and its column of figures is left alone. Returns 0 or TFMT_E_DAMAGED.
 */
int tfmt_decoder_begin(struct tfmt_decoder *d, const uint8_t *payload, size_t len, uint32_t nr_events,
		       uint64_t first_ordinal, uint64_t first_time, uint8_t time_shift);
int tfmt_decoder_begin_checkpoint(struct tfmt_decoder *d, const uint8_t *payload, size_t len, uint32_t nr_events,
				  uint64_t first_time, uint8_t time_shift);

/*
 * Decode the next events, when all have been handed out. If there is a wrong one among them, as many as come before it:
 * one by one. Returns 1, 0 at the end, or TFMT_E_DAMAGED if the very next one is wrong.
 */
int tfmt_decoder_batch(struct tfmt_decoder *d);

/* Are there events to hand out? 1, 0 at the end, TFMT_E_DAMAGED if a column ends early or holds what cannot be. */
static inline int tfmt_decoder_ready(struct tfmt_decoder *d)
{
	return d->index < d->nr_ready ? 1 : tfmt_decoder_batch(d);
}

/*
 * The next of those that are ready, of which there are nr_ready - index. alloc_ordinal is TFMT_NO_ORDINAL for all but
 * matched frees; of those, address, size and shape are 0.
 */
static inline struct tfmt_event *tfmt_decoder_event(struct tfmt_decoder *d)
{
	return &d->event[d->index - d->batch];
}

#endif
