/* SPDX-License-Identifier: MIT */
/* What a flight recorder has kept of a process, in words. */
#ifndef VT_KEPT_H
#define VT_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "tracefmt/tracefmt.h"

/*
 * Where the kept part begins (CLOCK_MONOTONIC) if the trace lacks its beginning because the recorder dropped it, else
 * false. After the first event that has been read, or at the end.
 */
bool kept_from(const struct tfmt_reader *r, uint64_t *ns);

/* "the last 12 min 3 s (of 3 h 02 min)": what is kept until last_ns (CLOCK_MONOTONIC). Returns buf. */
const char *kept_text(char *buf, size_t size, const struct tfmt_reader *r, uint64_t last_ns);

/*
 * How often the recorder could not drop the oldest part, so that the trace is larger than it was to be. Says in buf why
 * at last, if ever.
 */
uint64_t kept_failures(const struct tfmt_reader *r, char *buf, size_t size);

#endif
