/* SPDX-License-Identifier: MIT */
/*
 * A log of what runs: for each process and device and interval of the recording's time one line of CSV with the most that
 * was allocated, reserved and used within it. A recorder writes with a delay of up to a second, so a line comes a little
 * after its interval; what comes later still counts with the next line, and no peak is lost.
 */
#ifndef VT_LIVECSV_H
#define VT_LIVECSV_H

#include <stdio.h>

#include "analyzer/live/live.h"

void livecsv_head(FILE *out);

/* The lines of all intervals that are over; of processes that have ended, of all. `l` was opened with intervals. */
void livecsv_print(FILE *out, const struct live *l);

#endif
