/* SPDX-License-Identifier: MIT */
/*
 * The steps of a process that goes on: how many there were, how many there are in a second, what each leaves allocated on a
 * device, and when that fills it. Steps are as steps.h has them, growth as growth.h.
 */
#ifndef VT_LIVESTEPS_H
#define VT_LIVESTEPS_H

#include "analyzer/replay/replay.h"

#define LIVESTEPS_MARKS 64 /* power of two */
#define LIVESTEPS_SPANS 4

/* When cycles and named steps began: which of them are steps shows later. Zero before first use. */
struct livesteps {
	struct livesteps_mark {
		uint64_t ordinal, time_ns;
	} mark[LIVESTEPS_MARKS]; /* the latest, in turn */
	uint64_t nr_marks;
	uint32_t nr_cycles, nr_named; /* of steps.h, looked at */
};

/* How much more than at its beginning a device's tensors took within a cycle. Zero before first use. */
struct livesteps_rise {
	uint64_t level_bytes, peak_bytes; /* since the latest mark */
	uint64_t before[LIVESTEPS_SPANS]; /* of spans before it, in turn */
	uint64_t nr_marks; /* of livesteps, seen */
};

/* Note an event that has been entered: has a cycle or a step begun with it? */
void livesteps_note(struct livesteps *s, const struct steps *steps, uint64_t time_ns);

/* Likewise of the device that had so much allocated before it, and has now: the event that begins a step belongs to it. */
void livesteps_rise_note(struct livesteps_rise *r, const struct livesteps *s, uint64_t before_bytes, uint64_t now_bytes);

struct livesteps_pace {
	uint32_t nr_steps; /* 0: no step is seen yet */
	double per_second; /* of the latest steps; NAN: not known */
};

/* `now_ns`: the moment it is asked for, in the clock of livesteps_note(). */
void livesteps_pace(struct livesteps_pace *p, const struct livesteps *s, const struct steps *steps, uint64_t now_ns);

struct livesteps_growth {
	double bytes_per_step; /* 0: it does not grow; NAN: too few steps to tell */
	double oom_step, oom_step_low, oom_step_high; /* NAN: none is in sight; high may be infinite */
};

/* What the steps so far leave on the device. */
void livesteps_growth(struct livesteps_growth *g, const struct replay_device *d, const struct livesteps_rise *r);

#endif
