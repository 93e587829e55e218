/* SPDX-License-Identifier: MIT */
/*
 * lives: of each tensor block, when it was allocated and freed, in terms of training.
 *
 * What a block is for often shows only later: an activation is one that backward still needs, a gradient one that
 * outlives the backward pass. So the books keep a *life* for each live block, and for each *moment* that an analysis
 * may ask about, the lives that were live then: those that still are, and those that have ended since. A moment is
 * dropped when a later one takes its place (a new peak), and its ended lives with it: memory follows the number of
 * live blocks and of distinct groups, never the number of events.
 */
#ifndef VT_LIVES_H
#define VT_LIVES_H

#include "analyzer/ledger/books.h"
#include "analyzer/training/steps.h"

/* Moments of a device: the first event at which the most was allocated in each phase, two of enum group_mark, ... */
enum lives_moment {
	LIVES_PEAK_OF_PHASE, /* + enum phase */
	LIVES_OOM = NR_PHASES,
	LIVES_TIME,
	LIVES_STEP, /* the latest backward pass, or named step, that began; before the first, lives_step_began() */
	NR_LIVES_MOMENTS,
	LIVES_END = NR_LIVES_MOMENTS, /* the end of accounting: whoever is live */
	LIVES_NONE,
};

/* An event in terms of training. */
struct lives_when {
	uint64_t ordinal;     /* TFMT_NO_ORDINAL: it did not happen before the end of accounting */
	uint32_t nr_begun;    /* backward passes begun before */
	uint32_t nr_ended;    /* backward passes that have ended */
	uint32_t nr_cycles;   /* cycles (steps.h) ended before */
	uint32_t nr_ooms;     /* failed allocations before */
	uint32_t nr_forwards; /* forward's allocations before */
	uint32_t stack;       /* Python stack */
	uint8_t phase;        /* enum phase */
	uint16_t nr_evaluations; /* of cycles: further evaluations of an optimizer's closure (steps.h), modulo 65536 */
	uint32_t nr_runs;     /* stretches of forward begun before: something else was allocated between them */
};

struct life {
	struct lives_when birth;
	struct lives_when death; /* of what is live in struct lives: not set yet */
	uint64_t address, size;
	uint64_t original; /* whose tensor was copied there as a whole: the ordinal of its block's birth; TFMT_NO_ORDINAL: none's */
	uint32_t group; /* index into the books' groups: stack, shape */
	uint32_t module; /* path (modulepaths.h) that it was allocated in, 0 = none, or nobody asks */
	uint16_t flags; /* of the allocating event: TFMT_FLAG_... */
	uint8_t device;
	bool is_from_host;   /* what it holds was copied there from the host, as a whole */
	bool after_call;    /* forward has allocated in the same cycle, likewise, but with a graph or without */
	bool after_forward; /* autograd nodes were made in the same cycle, no backward has run and nothing failed since */
	bool in_graph_pass;  /* made in a backward pass that makes a graph itself */
	bool is_live;        /* private */
};

/* How blocks of a group have fared that were freed. */
enum lives_fate {
	FATE_SHORT,        /* freed before a backward pass began or ended */
	FATE_INTO_PASS,    /* freed in or after a pass that began during its life */
	FATE_OUT_OF_PASS,  /* allocated in a pass and freed after it */
	FATE_KEPT,         /* freed in a later cycle */
	NR_FATES
};

struct lives_fates {
	uint32_t nr[NR_FATES];
	uint32_t nr_long; /* of FATE_KEPT: over more than two cycles */
	uint32_t longest; /* of all fates: forward's allocations that one of them has outlived */
	uint32_t nr_aged; /* those that had outlived half as many as any until then, or more */
	uint32_t nr_after_pass; /* freed in no backward pass, after one that began and ended during its life */
};

enum lives_fate lives_fate(const struct life *life);

/* Cycles that began between two events, all evaluations of a closure by one call of an optimizer counted as one. */
static inline uint32_t lives_cycles(const struct lives_when *from, const struct lives_when *to)
{
	return to->nr_cycles - from->nr_cycles - (uint16_t)(to->nr_evaluations - from->nr_evaluations);
}

struct lives_at {
	bool reached;
	uint64_t ordinal, time_ns; /* of the event; CLOCK_MONOTONIC */
	uint64_t bytes;            /* allocated then */
	struct life *ended;        /* those that were live then */
	size_t nr_ended, room;
};

#define LIVES_WINDOW_MAX (1u << 21) /* blocks of a window; of a longer one nothing is said */

/* A part of the recording whose blocks an analysis wants to see one by one: asked for before the first event. */
struct lives_window {
	uint32_t device;
	uint64_t from, to; /* ordinals, both included */
	struct life *life; /* those that ended at `from` or later and began at `to` or before */
	size_t nr, room;
	bool is_cut; /* there were too many: life[] is worth nothing */
};

struct lives;

/*
 * Somebody who wants to see every life: told as a block comes and as it goes, of the latter with its death. `place` is a
 * number from 1 that no other live block has; times are CLOCK_MONOTONIC. Neither may change the lives.
 */
struct lives_follower {
	void *ctx;
	void (*begin)(void *ctx, const struct lives *lives, const struct life *life, size_t place, uint64_t time_ns);
	void (*end)(void *ctx, const struct lives *lives, const struct life *life, size_t place, uint64_t time_ns);
};

struct lives_device {
	struct lives_at moment[NR_LIVES_MOMENTS];
	uint64_t after_moments; /* whoever is born there or later was live at none of them but LIVES_STEP */
	int64_t first_net[NR_PHASES]; /* allocated less freed in each phase, until the first cycle ended */
	int64_t later_net[NR_PHASES]; /* the same after it */
	uint64_t allocated, pending_allocated;
	uint64_t past_peak_bytes; /* before the first event; 0 = all events are there */
	uint64_t *cycle_bytes, *named_bytes; /* allocated when those of steps.cycles, steps.named began */
	uint32_t nr_cycle_bytes, nr_named_bytes;
	size_t cycles_room, named_room;
};

/* Of one process. Zero it but for steps.reader. */
struct lives {
	struct steps steps;
	struct lives_device *device[TFMT_NR_DEVICES + 1]; /* NULL: it has had no tensors */
	struct life *life; /* live ones and free places */
	size_t nr_lives, room;
	size_t free; /* a free place + 1, which holds the next as its address */
	struct lives_fates *fates; /* by group */
	uint32_t nr_fates;
	struct lives_when now; /* of the event that is being entered */
	uint64_t time_ns;
	int signs; /* enum steps_sign of that event */
	bool is_past; /* that event was before the kept part */
	bool is_over; /* all events were entered: a moment lies after the last */
	uint64_t allocated; /* on all devices */
	bool has_graph; /* a call has made autograd nodes since the latest pass or cycle began, or allocation failed */
	bool has_forward; /* since then, too, something was allocated in forward, with nodes or without */
	bool in_run;      /* the latest allocation was in forward */
	uint8_t *brings; /* by Python stack: it has allocated 1 before any forward of its cycle, 2 after a graph */
	uint32_t nr_brings;
	uint16_t flags;
	struct lives_window *window; /* the caller's; NULL: nobody asks */
	const struct lives_follower *follower; /* likewise */
};

/* The next event, before it is entered in the books, told as to steps_next(). */
static inline void lives_next(struct lives *l, const struct tfmt_event *ev, enum phase phase, bool is_update,
			      bool is_pooled);

/* Has the event that was given to lives_next() a meaning for stepsamples.h? Once steps have shown, few have. */
static inline bool lives_concern_samples(const struct lives *l)
{
	return l->signs || (!l->steps.nr_backwards && !l->steps.named.nr_bounds);
}

/*
 * Does this line bring what a forward starts with? A batch that is made after an evaluation that kept its graph, or
 * after an attempt that failed, is known by its line: at another time nothing stood before it.
 */
static inline bool lives_brings_batch(const struct lives *l, uint32_t python_stack)
{
	return python_stack < l->nr_brings && l->brings[python_stack] & 1;
}

/* Has it always had a graph before it, as what makes a loss has? */
static inline bool lives_follows_graph(const struct lives *l, uint32_t python_stack)
{
	return python_stack < l->nr_brings && l->brings[python_stack] == 2;
}

/*
 * A block of this event, with which so much is allocated on the device (as lives_total(); 0: that is not sure). Returns its
 * handle, never 0.
 */
uint64_t lives_born(struct lives *l, const struct tfmt_event *ev, uint8_t device, uint32_t group, uint32_t module,
		    uint64_t allocated);

/* All of its tensor was copied there, from the host or from the one that `original` is the handle of; 0 is none. */
void lives_copied(struct lives *l, uint64_t handle, bool is_from_host, uint64_t original);

/* A block ends with this event; handle 0 is none. */
void lives_gone(struct lives *l, uint64_t handle);

/* So much is allocated on the device now: a peak of the phase, if it is one. */
void lives_peak(struct lives *l, uint8_t device, uint64_t allocated);
static inline void lives_total(struct lives *l, uint8_t device, uint64_t allocated)
{
	const struct lives_device *d = l->device[device];

	if (d && (int64_t)allocated > (int64_t)d->moment[LIVES_PEAK_OF_PHASE + l->now.phase].bytes)
		lives_peak(l, device, allocated);
}

/* A moment has come. Of LIVES_TIME, the event being entered comes after it. */
void lives_mark(struct lives *l, uint8_t device, enum lives_moment moment);

/* What stands for a step while there are none: LIVES_STEP, of all devices. */
void lives_step_began(struct lives *l);

/* After the last event: a moment that comes now lies after it. It may be said more than once. */
void lives_end(struct lives *l);

/*
 * No moment has come yet: what was entered so far was live when the recording began to be kept. Before, the device has
 * had its peak at so many bytes.
 */
void lives_past(struct lives *l, uint8_t device, uint64_t peak_bytes);

/* The phase in whose peak the device's own lies; NR_PHASES: none, or it is not known because it was before. */
enum phase lives_peak_phase(const struct lives *l, uint32_t device);

/*
 * The blocks that were live at a moment, by order of allocation, in a new array to be freed; deaths as far as they are
 * known.
 */
void lives_list(const struct lives *l, uint32_t device, enum lives_moment moment, struct life **out, size_t *nr);

/* After the last event: take in what is still live, and order all by allocation. false: the window is cut. */
bool lives_window_close(const struct lives *l, struct lives_window *w);
void lives_window_release(struct lives_window *w);

/* What was allocated when a step began, 0 the first, of which nobody knows. false: there is no such step. */
bool lives_step_bytes(const struct lives *l, uint32_t device, uint32_t step, uint64_t *bytes);
void lives_release(struct lives *l);

/* What lives_next() does with an event that has a meaning for steps. */
void lives_take_signs(struct lives *l, int signs);

/* Likewise, but for failed allocations. */
static inline void lives_next_tensor(struct lives *l, const struct tfmt_event *ev, enum phase phase, bool is_update,
				     bool is_pooled)
{
	int signs = ev->before ? 0 : steps_next(&l->steps, ev, phase, is_update, is_pooled);

	l->signs = signs;
	l->is_past = ev->before;
	l->now.ordinal = ev->ordinal;
	l->now.stack = ev->python_stack;
	l->now.phase = (uint8_t)phase;
	l->time_ns = ev->time_ns;
	l->flags = ev->flags;
	if (signs)
		lives_take_signs(l, signs);
}

static inline void lives_next(struct lives *l, const struct tfmt_event *ev, enum phase phase, bool is_update,
			      bool is_pooled)
{
	lives_next_tensor(l, ev, phase, is_update, is_pooled);
	if (ev->kind == TFMT_TENSOR_OOM) { /* whoever catches it begins anew */
		l->now.nr_ooms++;
		l->now.nr_forwards += phase == PHASE_FORWARD; /* it would have been one of forward's */
		l->has_graph = l->has_forward = false;
	}
}

#endif
