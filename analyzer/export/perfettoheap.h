/* SPDX-License-Identifier: MIT */
/* What was allocated by stack, as Perfetto's heap profiles have it. */
#ifndef VT_PERFETTOHEAP_H
#define VT_PERFETTOHEAP_H

#include "analyzer/export/export.h"
#include "analyzer/export/perfettofile.h"

/*
 * Write two profiles of a device: "GPU 0 at the peak" and "GPU 0", the latter with what each stack has allocated and freed in
 * all. weights_begin() and weights_observe() must have followed the events; `pid` is that of the process's track.
 */
void perfettoheap_write(struct perfettofile *f, const struct export *x, const struct replay_device *d, int32_t pid);

#endif
