/* SPDX-License-Identifier: MIT */
/* Growth from step to step (growth/stepgrowth.h), in words and as JSON. */
#ifndef VT_PRINT_STEPGROWTH_H
#define VT_PRINT_STEPGROWTH_H

#include "analyzer/growth/stepgrowth.h"
#include "analyzer/ui/emit.h"

/* What grows on a device and when memory runs out: one line when nothing does, else some for each finding. */
void print_stepgrowth(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
		      const struct stepgrowth_limits *limits);

/* The same as an object of the array "growth". */
void json_stepgrowth(struct emit *e, const struct replay *m, const struct replay_device *d, const struct stepgrowth *g,
		     const struct stepgrowth_limits *limits);

/* Its findings, as objects of the array "findings". */
void json_stepgrowth_findings(struct emit *e, const struct replay *m, const struct replay_device *d,
			      const struct stepgrowth *g);

/* The member "steps" of a device in a report. */
void json_steps(struct emit *e, const struct replay_device *d, const struct stepgrowth *g,
		const struct stepgrowth_limits *limits);

/* One line for the first page of a report, when there is a finding. Returns its lines. */
unsigned print_stepgrowth_line(struct emit *e, const struct replay *m, const struct replay_device *d,
			       const struct stepgrowth *g, const struct stepgrowth_limits *limits);

#endif
