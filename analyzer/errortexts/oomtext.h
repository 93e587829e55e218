/* SPDX-License-Identifier: MIT */
/*
 * What PyTorch says when memory runs out, read back from logs.
 *
 * The wordings are those of c10/cuda/CUDACachingAllocator.cpp from 1.0 on, of the cudaMallocAsync backend,
 * and of forks for other devices, wherever they stand in the text: after prefixes of launchers, between
 * tracebacks, wrapped at any column. To find them all white space is taken out first, so a *figure* "2.50
 * GiB" may have been cut anywhere. Text is read as a stream: memory is bounded however long it is.
 * Single-threaded.
 */
#ifndef VT_OOMTEXT_H
#define VT_OOMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
#define OOM_MESSAGES_MAX 256

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

/* All distinct messages of a text, in its order. */
struct oom_text {
	struct oom_message *message;
	size_t nr_messages;
	uint64_t nr_left_out; /* distinct ones beyond OOM_MESSAGES_MAX, before the last: counted, not kept */
	uint64_t nr_bytes;    /* length of the text */
};

/*
 * Read from `in` to its end. 0, or the negative errno that reading failed with. *t is for
 * oomtext_release() in any case.
 */
int oomtext_read(struct oom_text *t, FILE *in);
void oomtext_release(struct oom_text *t);

/* a - b and a + b: known where both are, in the coarser unit, the slacks added. */
struct oom_figure oom_figure_minus(struct oom_figure a, struct oom_figure b);
struct oom_figure oom_figure_plus(struct oom_figure a, struct oom_figure b);

#endif
