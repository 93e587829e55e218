/* SPDX-License-Identifier: MIT */
/*
 * The libraries that `run` puts into a program, and the environment that does it.
 *
 * They are found relative to this binary: beside it (build tree), else in ../lib/vramtrace (installed).
 */
#ifndef VT_PRELOAD_H
#define VT_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyzer/launch/gpushare.h"

#define PRELOAD_MAX_DEVICES 64 /* of one simulated machine */

struct preload {
	char interpose[PATH_MAX]; /* libinterpose.so */
	char simgpu[PATH_MAX];    /* folder of the simulated GPU's libraries */
};

struct preload_plan {
	bool is_recording;
	const char *output; /* recording directory, absolute; used when recording */
	const char *job;    /* when recording */
	const char *stacks; /* NULL = as the environment has it */
	const char *unwinder; /* the same */
	const char *only;   /* VRAMTRACE_FILTER; the same */
	const char *cupti;  /* the same */
	const char *rings;  /* the same */
	const char *keeper; /* VRAMTRACE_KEEPER; the same */
	bool argv;          /* record the whole command line */
	uint64_t keep_bytes; /* the most that a process's trace may have; 0 = any */
	uint64_t keep_steps; /* keep so many at least; 0 = no matter */
	bool tracker;       /* have the framework's allocator tell of itself */
	const char *gpu;    /* profile of the simulated GPU, NULL = real GPU */
	const char *name;   /* what recordings call it; NULL = as the profile */
	const char *model;  /* SIMGPU_MODEL, NULL = as the profile says */
	const char *questions; /* SIMGPU_QUESTIONS, NULL = nobody wants them */
	const char *values; /* SIMGPU_VALUES, NULL = as the environment has it */
	unsigned nr_gpus;   /* simulated */
	char capacity[24];  /* of each in bytes, or "unlimited"; "" = the profile's */
	struct gpu_share share;
};

/* The path of this program. Returns 0, or RUN_TROUBLE after a message. */
int preload_own_program(char out[static PATH_MAX]);

/* Find what the plan needs. Returns 0, or RUN_TROUBLE after a message. */
int preload_find(struct preload *p, const struct preload_plan *plan);

/* Change this process's environment for the program to be executed. 0, or RUN_TROUBLE after a message. */
int preload_apply(const struct preload *p, const struct preload_plan *plan);

/*
 * Understand --simulate's "GPU" or "NxGPU". Returns 0 with *gpu (a profile's name, which stays) and *nr set,
 * or RUN_TROUBLE after a message that lists the known ones. N may be up to max: PRELOAD_MAX_DEVICES for one
 * machine.
 */
int preload_parse_gpu(const char *text, unsigned max, const char **gpu, unsigned *nr);

/* Check COUNT, which --simulate's TEXT asks for. Returns 0 with *nr set, or RUN_TROUBLE after a message. */
int preload_check_count(const char *text, unsigned long count, unsigned max, unsigned *nr);

/* Understand --simulate-capacity's SIZE or "unlimited". Returns 0, or RUN_TROUBLE after a message. */
int preload_parse_capacity(const char *text, struct preload_plan *plan);

#endif
