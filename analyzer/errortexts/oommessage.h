/* SPDX-License-Identifier: MIT */
/*
 * One message about memory that ran out, read where it stands in a text whose white space was taken out.
 *
 * The wordings are those of c10/cuda/CUDACachingAllocator.cpp from 1.0 on, of the cudaMallocAsync backend,
 * and of forks for other devices, wherever they stand in the text. Pure; threads may share nothing but texts.
 */
#ifndef VT_OOMMESSAGE_H
#define VT_OOMMESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A size as a text has it: "2.50 GiB" is 2.50 GiB give or take 0.005 GiB. Differences have it, too. */
struct oom_figure {
	bool known;
	int unit;     /* power of 1024: 0 bytes, 3 GiB */
	double bytes; /* may be negative in a difference */
	double slack; /* the true value lies within bytes - slack and bytes + slack */
};

enum oom_wording {
	OOM_FIELDS,      /* "(GPU 0; 7.93 GiB total capacity; ...)": 1.0 to 2.0 */
	OOM_SENTENCES,   /* "GPU 0 has a total capacity of ...": since 2.1 */
	OOM_ASYNC,       /* "Allocation on device 0 would exceed allowed memory": backend:cudaMallocAsync */
	OOM_CUT,         /* "Tried to allocate 2.50 GiB", and no more */
	OOM_OVERSIZE,    /* "Tried to allocate more than 1EB memory" */
	OOM_DRIVER,      /* "CUDA error: out of memory": not from the caching allocator, no figures */
	OOM_LIBRARY,     /* a status of cuBLAS, cuDNN or NCCL: no figures */
	OOM_HOST,        /* the CPU allocator's */
	OOM_MPS,         /* Apple's GPUs */
	OOM_NOT_PYTORCH, /* JAX's and TensorFlow's */
};

#define OOM_PROCESSES_MAX 64

struct oom_process {
	uint64_t pid;
	struct oom_figure used;
};

struct oom_message {
	enum oom_wording wording;
	char backend[8];      /* "CUDA", "HIP", "XPU" ...; "" where the text does not say */
	int64_t rank, device; /* -1: not said */
	uint64_t count;       /* how often the text says the same */
	struct oom_figure requested, capacity, free, allocated, reserved, unused, private_pools, allowed;
	struct oom_figure own; /* all that this process holds, as the driver counts it */
	size_t nr_processes;   /* further ones that the text lists */
	struct oom_process process[OOM_PROCESSES_MAX];
};

#define OOM_BEGINNINGS 18 /* ways in which messages begin */

/* Where each beginning is next in a text, so that the text is searched once for each. Zeroed at first. */
struct oommessage_search {
	const char *next[OOM_BEGINNINGS];
};

/*
 * The first message that begins at *p or after it, and before `limit`: into *m, where it begins into *where, and *p is
 * after what was read of it. False where there is none: *p is after what only looked like one. `text` is what *p
 * points into, from its start on and ending with a 0: what stands before a beginning may belong to the message.
 */
bool oommessage_next(struct oommessage_search *search, const char *text, const char **p, const char *limit, const char **where,
		     struct oom_message *m);

/* Step over words, in capitals or not, or over a number that fits. False: *p does not begin with such. */
bool oommessage_take(const char **p, const char *words);
bool oommessage_take_number(const char **p, uint64_t *number);

/* a - b and a + b: known where both are, in the coarser unit, the slacks added. */
struct oom_figure oom_figure_minus(struct oom_figure a, struct oom_figure b);
struct oom_figure oom_figure_plus(struct oom_figure a, struct oom_figure b);

#endif
