/* SPDX-License-Identifier: MIT */
/*
 * What the trace says about the source files of recorded code: bytes and hash, soon after the first code of a file came,
 * so that the analyzer can tell whether it is still the file that ran. Drain thread only.
 */
#ifndef IP_SOURCEFILES_H
#define IP_SOURCEFILES_H

#include <stdbool.h>

#include "tracefmt/tracefmt.h"

/* Look at a definition that was taken. */
void sourcefiles_see(uint32_t type, uint32_t id, const uint8_t *payload, size_t len);

/*
 * Define the files that were seen, as many as can be read by then (a slow disk must not keep the drain from its rings).
 * True if any was defined.
 */
bool sourcefiles_tell(struct tfmt_writer *w, uint64_t until_ns);

#endif
