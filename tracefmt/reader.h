/* SPDX-License-Identifier: MIT */
/* The inside of a reader. Internal to tracefmt. */
#ifndef TFMT_READER_H
#define TFMT_READER_H

#include "tracefmt/checkpoint.h"
#include "tracefmt/columns.h"
#include "tracefmt/definitions.h"
#include "tracefmt/frame.h"
#include "tracefmt/ledger.h"

#include <zstd.h>

enum tfmt_reader_stage {
	TFMT_READER_FRAMES, /* events come from the decoder, then from the next frame */
	TFMT_READER_JOINED, /* events come from what the ring file held */
	TFMT_READER_SHORT, /* of memory */
	TFMT_READER_DONE,
};

/* What was copied from a ring file: raw events, and definitions one after another. */
struct tfmt_joined {
	struct tfmt_event *event;
	size_t nr_events, max_events, next;
	uint8_t *definitions; /* type, id, length as uint32_t, then the payload */
	size_t definitions_bytes, definitions_room;
	char damage[160]; /* what is wrong with the ring file, still to be reported; "": nothing */
	unsigned tries;     /* how often the trace had grown meanwhile */
};

/* Who copies the trace while it is read: tfmt_copy(). */
struct tfmt_copier {
	/* A frame was accepted: r->at is its header. NULL: what the ring file holds comes next. */
	void (*accepted)(struct tfmt_copier *c, const struct tfmt_frame_core *core);
	/* It holds events, or is of the checkpoint that the trace begins with; this is its payload. */
	void (*events)(struct tfmt_copier *c, const struct tfmt_frame_core *core, const uint8_t *payload);
};

struct tfmt_reader {
	void *memory; /* what this lies in */
	int fd;
	char *path;
	enum tfmt_reader_stage stage;
	struct tfmt_header header;
	struct tfmt_summary summary;
	uint64_t offset;     /* of the next frame */
	uint64_t file_bytes; /* when last looked at; of a pipe a number that it will not reach, until it ends */
	bool is_pipe;
	uint8_t *window;     /* a part of the file: TFMT_READER_WINDOW bytes of room */
	uint64_t window_offset;
	size_t window_bytes;
	uint32_t next_sequence;
	uint64_t next_ordinal;
	struct tfmt_checkpoint at;       /* of the last good frame */
	struct tfmt_checkpoint incoming; /* of the frame looked at */
	struct tfmt_ledger ledger;
	struct tfmt_definitions definitions;
	struct tfmt_decoder decoder;
	struct tfmt_event single; /* handed out by tfmt_reader_events() */
	struct tfmt_figures *figures; /* of the checkpoint; NULL: none */
	bool has_events;    /* a frame of events has been met: checkpoints after it are not needed */
	bool is_rereading;  /* the trace was replaced by a shorter one: what has been read is passed over */
	ZSTD_DCtx *zstd;
	uint8_t *payload;
	bool has_status; /* from an END frame or a ring file's status page */
	bool has_end_frame;
	bool is_running;
	bool stops_at_ring;         /* leave the ring file alone: tfmt_seal() does that part */
	bool gives_plain_stacks;
	bool is_followed;           /* wait where whole frames end, as long as the trace is being written */
	bool is_waiting;            /* that is where it stands */
	int kept_ring;              /* a descriptor of the rings; -1: they are where the header says */
	bool file_failed;           /* the file could not be read on */
	enum tfmt_frame_state tail; /* what lies at offset when there is no further frame; GOOD: nothing */
	struct tfmt_status status;
	uint64_t lost_in_damage, lost_in_events;
	bool lost_since_header; /* events after r->at are missing */
	struct tfmt_joined joined;
	struct tfmt_copier *copier; /* NULL: nobody copies */
	uint64_t error_offset;
	char message[512];
};

/* Record damage at a place for tfmt_reader_message(); returns err. */
int tfmt_reader_complain(struct tfmt_reader *r, int err, uint64_t offset, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#define TFMT_READER_WINDOW (1u << 20)

/* Open the file at r->path, and read its beginning. Returns 0 or TFMT_E_IO, errno set. */
int tfmt_reader_open_file(struct tfmt_reader *r);

/* Fill the window from an offset on: of a pipe from one that lies in it. Returns 0 or TFMT_E_IO. */
int tfmt_reader_fill(struct tfmt_reader *r, uint64_t offset);

/*
 * The bytes of the file from an offset on: enough for any frame unless the file ends. Valid until the next
 * call. A file that cannot be read further counts as ending there.
 */
const uint8_t *tfmt_reader_window(struct tfmt_reader *r, uint64_t offset, size_t *available);

/* A frame's payload to r->payload. Returns 0 or TFMT_E_DAMAGED. */
int tfmt_reader_unpack(struct tfmt_reader *r, const struct tfmt_frame_core *core, const uint8_t *stored);

/*
 * All frames are read: join the ring file. Returns 0 when the stage has changed (back to FRAMES if the
 * file has grown meanwhile), or damage to report first.
 */
int tfmt_reader_join(struct tfmt_reader *r);

/* Does whoever writes the trace hold its lock still? */
bool tfmt_reader_is_locked(const struct tfmt_reader *r);

/* Has the file changed since its end was reached? It is read on then. */
bool tfmt_reader_has_grown(struct tfmt_reader *r);

/* Remove the trace's rings, wherever they are. Returns 0, -1 or TFMT_E_NOMEM. */
int tfmt_reader_remove_ring(const struct tfmt_reader *r);

/*
 * Map the trace's ring file for reading. Returns 0, TFMT_E_IO if there is none, or TFMT_E_DAMAGED if it is
 * not this trace's or makes no sense (*what says so). Unmap with munmap().
 */
int tfmt_reader_map_ring(const struct tfmt_reader *r, struct tfmt_ring_view *view, const char **what);

/* The merge of what a ring file holds beyond the last good frame. Returns as tfmt_merge_open() does. */
int tfmt_reader_merge(const struct tfmt_reader *r, struct tfmt_merge **out,
		      const struct tfmt_ring_view *view);

/* Set the summary's end and totals from what is known now. */
void tfmt_reader_conclude(struct tfmt_reader *r);

#endif
