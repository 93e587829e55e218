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

#endif
