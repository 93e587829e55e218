/* SPDX-License-Identifier: MIT */
/* Memory of each device over time: a series (series.h) of what PyTorch and the driver gave. */
#ifndef VT_TIMELINE_H
#define VT_TIMELINE_H

#include "analyzer/ledger/series.h"
#include "analyzer/replay/replay.h"

/* Places in struct series_values, in bytes. */
enum timeline_value { TIMELINE_ALLOCATED, TIMELINE_RESERVED, TIMELINE_DRIVER };

/* A struct replay_options observer; ctx is the struct series to be filled. */
void timeline_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns);

#endif
