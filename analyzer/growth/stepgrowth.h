/* SPDX-License-Identifier: MIT */
/*
 * Does a device's memory grow from step to step, whose is it, and when does it run out?
 *
 * A *reading* is what was live where a step began: tensors, and what others than the framework's allocator took from
 * the driver; what that allocator reserves is not counted, it grows until it fits. A *cause* is one place in the source
 * whose memory grows; of one autograd graph that is kept, all places of its forward. What the blocks are that stay,
 * and who keeps them, is told by their lives (lives.h), never guessed: without evidence a cause has none.
 * Needs a replay that was loaded with lives.
 *
 * A batch that is larger in each step makes what is left of it larger, too: that is no finding. Nor is what a container
 * with a bound keeps, if there is room until it is full, nor what censuses saw nobody keep while memory as a whole does not grow.
 *
 * A program without steps is looked at by the calls of its model, or, where it has hardly any, by what it allocates and
 * frees: a reading is then of the lowest moment after a call, or of a part of these events, and growth is by the call, or
 * by 1,000 events. The clock says nothing: a server may wait. What is only filled, as when a model is loaded, grows like
 * that, too: it is a finding where the program frees much of what it allocates. What gets longer until it is let go, as the cache of a generation does, is none.
 */
#ifndef VT_STEPGROWTH_H
#define VT_STEPGROWTH_H

#include "analyzer/findings/certainty.h"
#include "analyzer/findings/verdict.h"
#include "analyzer/growth/growth.h"
#include "analyzer/growth/stepkeeper.h"
#include "analyzer/replay/replay.h"

/* What grows. */
enum stepgrowth_class {
	STEPGROWTH_TENSORS,       /* tensors, one after another */
	STEPGROWTH_GRAPH_TENSORS, /* tensors that autograd has made nodes for: each holds on to its graph */
	STEPGROWTH_GRAPH,         /* what forward has kept for backward: one graph after another */
	STEPGROWTH_SHAPES,        /* tensors of which nearly each has a shape of its own: a cache by shape */
	STEPGROWTH_SEQUENCE,      /* as many tensors as before, each time longer */
	STEPGROWTH_HOOK,          /* tensors that a hook allocates */
	STEPGROWTH_CONTEXT,       /* tensors that a custom autograd.Function allocates */
	STEPGROWTH_DRIVER,        /* memory that was taken from the driver, by `owner` */
	STEPGROWTH_HOST,          /* page-locked and managed memory of the host */
	NR_STEPGROWTH_CLASSES
};

/* "tensors", "graph_tensors", ..., "driver", "host" */
extern const char *const stepgrowth_class_names[NR_STEPGROWTH_CLASSES];

/* What growth is by, and what readings count. */
enum stepgrowth_by { STEPGROWTH_BY_STEP, STEPGROWTH_BY_CALL, STEPGROWTH_BY_EVENTS, NR_STEPGROWTH_BY };
#define STEPGROWTH_EVENTS 1000 /* allocations and frees that are counted as one */

/* "step", "call", "events" */
extern const char *const stepgrowth_by_names[NR_STEPGROWTH_BY];

struct stepgrowth_cause {
	enum stepgrowth_class class;
	enum verdict verdict;
	struct growth growth;
	uint32_t group;     /* its stack stands for the cause; index into the books' groups */
	uint32_t nr_places; /* in the source; more than 1 of a graph */
	enum owner owner;   /* of memory from the driver */
	double grown_bytes; /* from the first reading used to the last */
	double last_bytes;
	uint32_t first_step; /* the first that left something, 1 the first of all; 0 without steps */
	uint32_t nr_rises;   /* readings at which there was more than at the one before */
	uint32_t nr_since;   /* readings from the first of those on */
	double first;        /* without steps: the first reading after which something was left */
	uint32_t nr_anew;    /* each step makes all blocks anew, and ever more: so many in the last; else 0 */
	uint32_t nr_kept;    /* blocks that were born in these steps and are there in the last; 0 of driver memory */
	uint64_t nr_live;    /* of what gets longer: blocks that live at the end */
	uint32_t nr_freed;   /* of those kept, freed after it by one line */
	uint32_t freed_stack; /* its Python stack */
	bool in_module;       /* of tensors: all were made in forward of modules */
	bool has_hook;        /* of tensors: those modules have hooks, as most have not */
	bool makes_nodes;     /* of tensors: autograd makes nodes for most of them */
	bool follows_batch;   /* as many tensors as before, longer like the batch: no finding */
	bool is_let_go;       /* without steps: what grew was freed before the end: no finding */
	struct stepkeeper keeper; /* of tensors: whom a census saw */
	bool fills_up;        /* its container is full one day, and there is room until then: no finding */
	bool is_offset;       /* memory as a whole does not grow; this does ever more slowly, or in as many entries, or nobody was seen to keep it: no finding */
	enum certainty certainty; /* proven: counted in calls of the driver, or a census saw who keeps it; a hint: by events alone */
	bool is_finding;
};

/* What growth is measured against. */
struct stepgrowth_limits {
	uint64_t capacity_bytes; /* 0: the device's own */
	double horizon_steps;
	double warn_share, warn_bytes, warn_steps; /* --warn-growth; warn_steps 0: not given */
};
#define STEPGROWTH_HORIZON 100000
#define STEPGROWTH_LIMITS_USUAL { .horizon_steps = STEPGROWTH_HORIZON }

struct stepgrowth {
	uint32_t nr_steps;    /* steps_count() */
	bool is_host;         /* of stepgrowth_host() */
	enum stepgrowth_by by; /* what are steps in names here, and in growth.h, where there are none */
	bool is_filled;       /* without steps, and little of what was allocated was freed: no finding */
	size_t nr_readings;
	struct growth_reading reading[STEPSAMPLES_MAX];
	struct growth total;  /* of the readings */
	double level_bytes;   /* the first reading used */
	double limit_bytes;   /* that a reading may reach; NAN: not known */
	double overhead_bytes; /* not in the limit: what a step takes for a while, and what others hold */
	double step_ns;       /* the time of a step, of a call, of 1,000 events; NAN: not known */
	struct stepgrowth_cause *cause; /* findings first, then by slope, then those whose keeper is known */
	size_t nr_causes, nr_findings;
	bool is_warned; /* more than --warn-growth allows */
	bool has_ended; /* the program, by itself: what is to come would be of a longer run */
	/*
	 * After most steps since it began nothing has grown, and the program has ended: members of an ensemble, the weights of each stage. So much a
	 * step, and a step at which memory would be full, say more than is known.
	 */
	bool is_rare;
};

/* The page-locked and managed memory of a process's host, as a device that only stepgrowth_find() is to see. */
struct replay_device stepgrowth_host(struct replay_process *p);
bool stepgrowth_is_host(const struct replay_device *d);

/* Is memory of the group counted in readings of the device (GROUP_HOST: of the host)? */
bool stepgrowth_is_counted(struct books *books, const struct group *g, uint32_t device);

/* What readings do not show, in bytes: contexts, code, other processes. */
double stepgrowth_held_by_others(const struct replay_device *d);

/* What grows on a device, and since when. stepgrowth_release() is needed. */
void stepgrowth_find(struct stepgrowth *g, const struct replay *m, const struct replay_device *d,
		     const struct stepgrowth_limits *limits);
void stepgrowth_release(struct stepgrowth *g);

/* Is it no growth without end, however much it is, since it follows the batch, was let go, fills up or does not show in the whole? */
bool stepgrowth_is_apart(const struct stepgrowth_cause *c);

/* Does the last reading pass the capacity that was asked about, with what a step and others take beside it? */
bool stepgrowth_is_beyond(const struct stepgrowth *g, const struct stepgrowth_limits *limits);

/*
 * The step, the call, or after how many thousand events memory is going to run out, NAN: none is known, or it is beyond the
 * horizon, which is a month without steps; or it has come already.
 */
double stepgrowth_oom_step(const struct stepgrowth *g, const struct stepgrowth_limits *limits);

/*
 * Between which that is: growth.h's wider range, not that of one fit. `high` infinity: it may never
 * come. false: nothing is known, or `low` is beyond the horizon.
 */
bool stepgrowth_oom_range(const struct stepgrowth *g, const struct stepgrowth_limits *limits, double *low,
			  double *high);

#endif
