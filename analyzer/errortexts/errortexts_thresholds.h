/* SPDX-License-Identifier: MIT */
/*
 * Thresholds of what an error's text tells alone: what decides, in which unit, and why it is about so large.
 * docs/diagnosis.md lists which planted jobs are told otherwise when one is a quarter smaller or larger.
 */
#ifndef VT_ERRORTEXTS_THRESHOLDS_H
#define VT_ERRORTEXTS_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/* Share of what is reserved that is unused: less, as any allocator leaves, is a full GPU and no fragmentation. */
#define FRAGMENTED_LEAST THRESHOLD(FRAGMENTED_LEAST, 0.01)
/* Share from which on it is remarkable, whatever others hold; as PIECES_PART of oom_thresholds.h. */
#define FRAGMENTED_MUCH THRESHOLD(FRAGMENTED_MUCH, 0.1)
/*
 * Times what is unused that others must hold to stand before it: it must be plain, since ending them costs somebody
 * else.
 */
#define OTHERS_MUCH THRESHOLD_RATIO(OTHERS_MUCH, 4)
/* Bytes of a context, at most, by the measured models of simgpu/profiles.def; a message has no libraries to add. */
#define CONTEXT_MAX_BYTES THRESHOLD(CONTEXT_MAX_BYTES, 600 * 1024.0 * 1024)
/* Bytes: a pebibyte; no machine has so much: a dimension was computed wrong. */
#define REQUEST_MAX_BYTES THRESHOLD(REQUEST_MAX_BYTES, 1024 * 1024 * 1024.0 * 1024 * 1024)

#endif
