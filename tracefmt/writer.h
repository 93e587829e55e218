/* SPDX-License-Identifier: MIT */
/* Going on with a trace that a reader has read to its end. Internal to tracefmt. */
#ifndef TFMT_WRITER_H
#define TFMT_WRITER_H

#include "tracefmt/checkpoint.h"
#include "tracefmt/ledger.h"

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

/* Write a frame of nr events as it is, where tfmt_writer_stand() has put the writer. Nothing may be buffered. */
int tfmt_writer_events(struct tfmt_writer *w, const uint8_t *payload, size_t len, uint32_t nr);

/*
 * As tfmt_writer_event(), of an event that a reader has handed out: with its ordinal and the block that it frees.
 * totals: behind it.
 */
int tfmt_writer_event_read(struct tfmt_writer *w, const struct tfmt_event *ev, const struct tfmt_totals *totals);

#endif
