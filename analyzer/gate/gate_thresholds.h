/* SPDX-License-Identifier: MIT */
/* Thresholds of comparing two versions of a program: what decides, in which unit, and why it is about so large. */
#ifndef VT_GATE_THRESHOLDS_H
#define VT_GATE_THRESHOLDS_H

#include "analyzer/base/threshold.h"

/*
 * Share of two stacks' functions that both must have in the same order, to be one stack of a program that was changed: half.
 * A call that was moved into another function keeps most of its callers; two calls of one main() share that alone.
 */
#define SHARED_FUNCTIONS_MIN THRESHOLD(SHARED_FUNCTIONS_MIN, 0.5)

#endif
