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

struct preload {
	char interpose[PATH_MAX]; /* libinterpose.so */
	char simgpu[PATH_MAX];    /* folder of the simulated GPU's libraries */
};

struct preload_plan {
	bool is_recording;
	const char *output; /* recording directory, absolute; used when recording */
	const char *job;    /* when recording */
	const char *stacks; /* NULL = as the environment has it */
	const char *gpu;    /* profile of the simulated GPU, NULL = real GPU */
	unsigned nr_gpus;   /* simulated */
};

/* Find what the plan needs. Returns 0, or RUN_TROUBLE after a message. */
int preload_find(struct preload *p, const struct preload_plan *plan);

/* Change this process's environment for the program to be executed. 0, or RUN_TROUBLE after a message. */
int preload_apply(const struct preload *p, const struct preload_plan *plan);

/*
 * Understand --simulate's "GPU" or "NxGPU". Returns 0 with *gpu (points into text) and *nr set, or
 * RUN_TROUBLE after a message that lists the known ones.
 */
int preload_parse_gpu(const char *text, const char **gpu, unsigned *nr);

#endif
