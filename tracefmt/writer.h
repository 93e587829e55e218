/* SPDX-License-Identifier: MIT */
/* The inside of a writer, and going on with a trace that a reader has read to its end. Internal to tracefmt. */
#ifndef TFMT_WRITER_H
#define TFMT_WRITER_H

#include "tracefmt/checkpoint.h"
#include "tracefmt/columns.h"
#include "tracefmt/frame.h"
#include "tracefmt/ledger.h"

struct ZSTD_CCtx_s;

struct tfmt_writer {
	int fd;
	int error; /* errno of the write that failed; every later call fails too */
	int level, highest_level; /* of zstd; its memory is enough for the highest */
	bool (*make_room)(void *context); /* when the disk is full; may be NULL */
	void *make_room_context;
	uint64_t bytes; /* of whole frames in the file */
	uint32_t header_bytes;
	uint32_t sequence;
	struct tfmt_checkpoint written;  /* as of the last frame: what the next one's header says */
	uint64_t order[TFMT_NR_DOMAINS]; /* with the buffered events */
	uint64_t next_ordinal;           /* with the buffered events */
	uint8_t *definitions;            /* payload of the next definitions' frame */
	uint32_t definitions_bytes, nr_definitions;
	uint8_t *raw;   /* events' payload before compression */
	uint8_t *frame; /* a frame as it goes to the file */
	void *memory;
	size_t memory_bytes;
	struct ZSTD_CCtx_s *zstd;
	struct tfmt_ledger ledger;
	struct tfmt_keep *keep; /* NULL: frames are never dropped */
	struct tfmt_encoder encoder;
};

/* Compress a payload to its place after the header, or copy it if that is not shorter; sets the core's sizes. */
void tfmt_writer_store(struct tfmt_writer *w, uint8_t *to, const uint8_t *raw, size_t len,
		       struct tfmt_frame_core *core);

/* One frame to the file; its header says what w->written says. Returns 0 or TFMT_E_IO. */
int tfmt_writer_frame(struct tfmt_writer *w, enum tfmt_frame_type type, const uint8_t *raw, size_t len,
		      uint32_t nr_records);

/*
 * Of a writer that keeps a history, and has nothing buffered: write which backward passes have begun since it last
 * was, so that they stay known when these events are dropped. Returns 0 or TFMT_E_IO.
 */
int tfmt_writer_put_passes(struct tfmt_writer *w);

/*
 * Append to the trace on fd from offset on. `at` says where the stream stands (its totals are not looked
 * at); the ledger is by address and passes to the writer, also when this fails.
 * Returns 0 or TFMT_E_NOMEM.
 */
int tfmt_writer_resume(struct tfmt_writer **out, int fd, uint64_t offset, uint32_t sequence,
		       uint8_t time_shift, int level, const struct tfmt_checkpoint *at,
		       struct tfmt_ledger *ledger);

/*
 * For a copy: the frames that follow say what `at` says, a frame's header in the original, and cover nothing of a
 * ring file; nr_missing frames of the original before them could not be read, which their sequence tells.
 */
void tfmt_writer_stand(struct tfmt_writer *w, const struct tfmt_checkpoint *at, uint32_t nr_missing);

/* The next frame says itself that so many more frames are missing before it. */
void tfmt_writer_give_up(struct tfmt_writer *w, uint32_t nr_missing);

/*
 * Write a frame of nr events, or of a checkpoint, as it is, where tfmt_writer_stand() has put the writer. Nothing may
 * be buffered.
 */
int tfmt_writer_events(struct tfmt_writer *w, enum tfmt_frame_type type, const uint8_t *payload, size_t len,
		       uint32_t nr);

/*
 * As tfmt_writer_event(), of an event that a reader has handed out: with its ordinal and the block that it frees.
 * totals: as they are after it.
 */
int tfmt_writer_event_read(struct tfmt_writer *w, const struct tfmt_event *ev, const struct tfmt_totals *totals);

#endif
