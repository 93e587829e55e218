/* SPDX-License-Identifier: MIT */
/* Many varints at once: a column of them is most of what a reader decodes. Internal to tracefmt. */
#ifndef TFMT_VARINTS_H
#define TFMT_VARINTS_H

#include "tracefmt/varint.h"
#include "tracefmt/way.h"

/* So many bytes after a cursor's end can be read, whatever they are. */
#define TFMT_VARINTS_AHEAD 72

/*
 * The next nr varints into out. The cursor's bytes are followed by TFMT_VARINTS_AHEAD more that may be looked at.
 * If one is not there or is wrong, the cursor is bad, and what is in out from it on is not defined. Returns a bound: no
 * value is above it, though it may be above them all.
 */
uint64_t tfmt_varints_get(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, enum tfmt_way way);

/* TFMT_WAY_WIDE, up to one that is too long for it, or wrong, or not there. Returns how many; adds to *bound. */
uint32_t tfmt_varints_get_wide(struct tfmt_cursor *c, uint64_t *out, uint32_t nr, uint64_t *bound);

#endif
