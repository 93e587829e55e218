/* SPDX-License-Identifier: MIT */
/*
 * One trace that is followed while it is written: the replay of its process, and what the replay does not keep: maxima since
 * the last look and in intervals of time, memory over time, where steps began. Each event of it is read once.
 */
#ifndef VT_LIVETRACE_H
#define VT_LIVETRACE_H

#include "analyzer/ledger/series.h"
#include "analyzer/live/livesteps.h"
#include "analyzer/replay/replay.h"

/* Maxima, in bytes. */
struct livemost {
	uint64_t allocated, reserved, used;
};

struct livedevice {
	struct livemost now;      /* as it stands */
	struct livemost since;    /* since the last look began */
	struct livesteps_rise rise;
	/* Intervals of the recording's time: maxima of each from number first_interval on, if they are asked for. */
	struct livemost *interval;
	size_t nr_intervals, room;
	uint64_t first_interval;
};

struct livetrace {
	char *path;
	uint64_t start_ns;      /* of its process, since the earliest of its recording */
	uint64_t start_real_ns; /* CLOCK_REALTIME of the same */
	uint64_t interval_ns;   /* 0: no intervals, but names, and the series */
	uint64_t now_ns;        /* the moment of the last look, since the process's start */
	struct replay replay;   /* of this trace alone: one process */
	struct series series;   /* as timeline_observe() fills it */
	struct livesteps steps;
	struct livedevice *device[TFMT_NR_DEVICES]; /* NULL: not used so far */
	size_t nr_censuses;     /* that the replay knows */
};

/*
 * Follow a trace with this header. Returns NULL if it cannot be read, after a message. `interval_ns` 0: keep no
 * intervals.
 */
struct livetrace *livetrace_open(const char *path, const struct tfmt_header *header, uint64_t interval_ns);
void livetrace_close(struct livetrace *t);

/* Read what has been written since. */
void livetrace_look(struct livetrace *t);

/* Its one process; NULL if the trace was taken away while it was followed. */
struct replay_process *livetrace_process(const struct livetrace *t);

/* What the driver says is in use on a device, brought to now; without a sample of that, what was taken by calls. */
uint64_t livetrace_used_bytes(const struct books *books, uint32_t device);

/* Forget intervals before this number. */
void livedevice_forget(struct livedevice *d, uint64_t before);

#endif
