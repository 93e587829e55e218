/* SPDX-License-Identifier: MIT */
/*
 * Checkpointed layers, as torch.utils.checkpoint does it: what a layer's forward has made goes at its end, but for its output;
 * its backward begins with the same requests once more, and what backward needs stays until it has had it. The output waits
 * for the next layer's backward, whose forward is computed from it again.
 */
#ifndef VT_LAYERSTEPS_H
#define VT_LAYERSTEPS_H

#include "analyzer/changes/layerspans.h"
#include "analyzer/whatif/edits.h"

/* Add the steps of all layers of the spans. Returns how many layers were called. */
uint32_t layersteps_add(struct edits *e, const struct layerspans *l);

#endif
