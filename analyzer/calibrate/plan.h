/* SPDX-License-Identifier: MIT */
/*
 * An operation graph of cuDNN's backend API, made from its text. simgpu/cudnn_question.h has the notation;
 * this is its other half, for the real library.
 */
#ifndef VT_PLAN_H
#define VT_PLAN_H

#include <stdint.h>

#include "analyzer/calibrate/libraries.h"

enum { PLAN_WHAT_BYTES = 256 };

/*
 * Make the graph of TEXT, ask the heuristics of MODE for engines, and make plans of them until one can be
 * made: its workspace goes to *bytes, and a description for people to what. False with *reason, a constant
 * string, when the text is not understood or cuDNN has no plan.
 */
bool plan_workspace(const struct libraries *l, cudnnHandle_t handle, cudnnBackendHeurMode_t mode,
		    const char *text, uint64_t *bytes, char what[static PLAN_WHAT_BYTES],
		    const char **reason);

#endif
