/* SPDX-License-Identifier: MIT */
/* What the rows of the table of formats (export.h) call: begin, observe and finish of each. */
#ifndef VT_FORMATS_H
#define VT_FORMATS_H

#include "analyzer/export/export.h"

/* rows.c: events, blocks or series, a row each. */
void csv_begin(struct export *x);
void ndjson_begin(struct export *x);
void rows_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);
int rows_finish(struct export *x);

/* weights.c: what was allocated in all is counted as it comes; the formats by stack write at the end. */
void weights_begin(struct export *x);
void weights_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);
int weights_finish(struct export *x);
int folded_write(struct export *x);
int speedscope_write(struct export *x);
int pprof_write(struct export *x);

/* perfetto.c */
void perfetto_open(struct export *x);
void perfetto_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);
int perfetto_finish(struct export *x);

/* massif.c */
void massif_begin(struct export *x);
void massif_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);
int massif_write(struct export *x);
int massif_finish(struct export *x);

/* sqlite.c */
void sqlite_begin(struct export *x);
void sqlite_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);
int sqlite_finish(struct export *x);

/* memoryviz.c */
void memoryviz_begin(struct export *x);
void memoryviz_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);
int memoryviz_finish(struct export *x);

#endif
