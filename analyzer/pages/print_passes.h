/* SPDX-License-Identifier: MIT */
/* How a job went before what a flight recorder kept of it, from backward pass to backward pass. */
#ifndef VT_PRINT_PASSES_H
#define VT_PRINT_PASSES_H

#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

/* A line, where anything is known; else nothing. */
void print_passes(struct emit *e, const struct replay_device *d);

/* The array "passes_before": empty where all of the recording is kept. */
void json_passes(struct emit *e, const struct replay_device *d);

#endif
