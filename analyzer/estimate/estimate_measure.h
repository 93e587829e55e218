/* SPDX-License-Identifier: MIT */
/* What a recording says of a job's peak, and a recording made for it: a step on a simulated GPU without an
 * end. */
#ifndef VT_ESTIMATE_MEASURE_H
#define VT_ESTIMATE_MEASURE_H

#include "analyzer/pages/print_estimate.h"

/* The device with the highest peak of tensors. 0, or CMD_TROUBLE after a message. */
int estimate_measure_read(struct estimate_measured *m, const char *recording);

/*
 * Run the program (NULL-terminated) on a simulated GPU whose memory never ends, its stdout going to stderr,
 * and read the recording, which is removed. 0, or CMD_TROUBLE after a message.
 */
int estimate_measure(struct estimate_measured *m, const char *gpu, const char *const *program);

#endif
