/* SPDX-License-Identifier: MIT */
/* Thresholds of changes: by what a batch, and a layer's output, are told from other tensors. */
#ifndef VT_CHANGES_THRESHOLDS_H
#define VT_CHANGES_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/* Tensors of one line for one batch that are samples of it: two may be what a model takes side by side. */
#define SAMPLES_MIN THRESHOLD(SAMPLES_MIN, 3)
/* Tokens of the shortest length that is told from numbers of heads, or of parts. */
#define LENGTH_MIN THRESHOLD(LENGTH_MIN, 16)
/* Part of a layer's largest result that its output must have: a loss, or a count of tokens, is much smaller. */
#define OUTPUT_LEAST THRESHOLD_RATIO(OUTPUT_LEAST, 256)

#endif
