/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of what PyTorch's allocator leaves unused: what decides, in which unit, and why it is about so large. A
 * "part" divides: 2 is a half.
 */
#ifndef VT_ALLOCATOR_THRESHOLDS_H
#define VT_ALLOCATOR_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/*
 * Share of the GPU that is reserved at its peak, from which on memory is scarce: what lies in pieces may then be what the
 * next request needs. At half of it, a third of the GPU could still be had; much above, the next batch may fail untold.
 */
#define FRAG_SCARCE_SHARE THRESHOLD(FRAG_SCARCE_SHARE, 0.70)
/*
 * Share of what is reserved at its peak that is stuck in segments that are partly in use; more is a finding. Some is
 * always there: sizes are rounded up, and each pool ends in a segment that is not full. At half of it, usual jobs
 * would be findings; at twice as much, a third of an 80 GB card would be lost in silence.
 */
#define FRAG_STUCK_SHARE THRESHOLD(FRAG_STUCK_SHARE, 0.20)
/*
 * Share of what is reserved at its peak in segments that were taken while that much was free in others. While first
 * steps ask for sizes that are new, every job takes some; without a share each would be a finding.
 */
#define FRAG_FORCED_SHARE THRESHOLD(FRAG_FORCED_SHARE, 0.10)
/*
 * Share of what is reserved that segments which grow would have saved: less, and it is not the segments' fault. So
 * little is worth no change of settings.
 */
#define FRAG_SAVED_SHARE THRESHOLD(FRAG_SAVED_SHARE, 0.02)
/* Part of a segment that is free from which on what lives in it is told as what holds it: most of it. */
#define HALF_FREE_UNIT_PART THRESHOLD_RATIO(HALF_FREE_UNIT_PART, 2)
/* Part of all that is free that must be in such segments; else all segments that are not full are told. */
#define HALF_FREE_ALL_PART THRESHOLD_RATIO(HALF_FREE_ALL_PART, 2)

#endif
