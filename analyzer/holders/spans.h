/* SPDX-License-Identifier: MIT */
/*
 * What was live during spans of time that somebody else measured, such as the tests of a suite: at their beginning, at
 * most, and at their end.
 *
 * A *span* is a name and two readings of CLOCK_MONOTONIC, both ends included, of one process or of all. Spans may
 * overlap. Every process and device that held something in a span gives a *stay*. Single-threaded.
 */
#ifndef VT_SPANS_H
#define VT_SPANS_H

#include "analyzer/replay/replay.h"

struct span {
	uint64_t from_ns, to_ns;
	uint32_t pid; /* 0 = any */
	char *name;
	size_t line; /* of the file, 1 the first */
};

struct stay_figures {
	uint64_t begin_bytes, peak_bytes, end_bytes;
	uint64_t peak_ns; /* when the peak was reached first, on the recording's clock */
};

/* One device of one process in one span. */
struct stay {
	size_t span; /* index */
	const struct replay_process *process;
	uint32_t device;
	struct stay_figures tensor, driver;
};

struct span_open;

struct spans {
	struct span *span; /* by beginning */
	size_t nr_spans, spans_room;
	struct stay *stay; /* process by process, each by the end of its spans; spans_finish() sorts by the file's lines */
	size_t nr_stays, stays_room;

	/* private: of the process whose events pass by */
	const struct replay_process *process;
	size_t next;            /* the first span that has not begun */
	struct span_open *open; /* those that have begun and not ended */
	size_t nr_open, open_room;
	uint64_t tensor_bytes[TFMT_NR_DEVICES], driver_bytes[TFMT_NR_DEVICES];
};
#define SPANS_INIT { 0 }

void spans_release(struct spans *s);

/* A struct replay_options observer; ctx is the spans. */
void spans_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);

/* After the last event. */
void spans_finish(struct spans *s);

#endif
