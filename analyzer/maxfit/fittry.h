/* SPDX-License-Identifier: MIT */
/*
 * One *try* of `max-fit`: the program run once, with one value, on one GPU, recorded by `vramtrace run` in a process
 * below ours, and ended as soon as it has shown what it takes.
 *
 * A try is ended by SIGKILL, all its processes at once: the program gets no chance to save a checkpoint nobody wants.
 * What they print goes into a file. The caller reaps: see fitcrew.h.
 */
#ifndef VT_FITTRY_H
#define VT_FITTRY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "analyzer/maxfit/fitresult.h"
#include "analyzer/maxfit/steadysteps.h"

#define FITTRY_STEADY (-1) /* steps: until they repeat, FITTRY_STEPS_MOST at the most */
#define FITTRY_STEPS_MOST 100

/* What all tries have in common. */
struct fit_plan {
	const char *const *program; /* NULL-terminated; "{}" stands for the value */
	const char *const *gpu;     /* what --simulate takes; { NULL } for this machine's own */
	unsigned nr_gpus;
	const char *capacity; /* --simulate-capacity, NULL = the GPU's */
	int64_t steps;        /* a try is ended after so many; 0: never; FITTRY_STEADY */
	double headroom;      /* part of the GPU's memory that must stay free */
	char self[PATH_MAX];  /* this program */
	char folder[PATH_MAX]; /* where recordings and outputs go */
};

struct fit_try {
	unsigned gpu; /* index */
	uint64_t value;
	int64_t index; /* of the value, for the caller */
	struct fit_result result;

	pid_t pid; /* of its `run`; 0 = not running */
	char recording[PATH_MAX], output[PATH_MAX];
	bool is_moot;     /* nobody wants its result any more */
	bool is_stopping; /* its processes are being killed */
	uint64_t began_ns, look_ns; /* CLOCK_MONOTONIC; of the next look at its steps */
	uint32_t nr_steps;          /* at the last look */
	struct steadysteps_watch *watch; /* of its recording, while it runs; NULL: not looked at yet */
};

/* Start it, between launch_watch() and launch_unwatch(). Returns 0, or CMD_TROUBLE after a message. */
int fittry_start(struct fit_try *t, const struct fit_plan *plan);

/* To be called now and then while it runs: ends it when it has run far enough, or is moot. */
void fittry_tick(struct fit_try *t, const struct fit_plan *plan);

/* Its `run` has ended, as waitpid() tells: find what came out. Returns 0, or CMD_TROUBLE after a message. */
int fittry_finish(struct fit_try *t, const struct fit_plan *plan, int exit_status, int signal);

/* Show the last lines that it printed on stderr. */
void fittry_show_output(const struct fit_try *t);

#endif
