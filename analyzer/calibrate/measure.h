/* SPDX-License-Identifier: MIT */
/* What calibrate measures on a GPU: the device, its context, and what libraries take. */
#ifndef VT_MEASURE_H
#define VT_MEASURE_H

#include "analyzer/calibrate/libraries.h"
#include "analyzer/gpu/gpufile.h"

struct measured_gpu {
	const struct libraries *libraries;
	int device; /* CUDA's index */
	void *nvml; /* NVML's handle of it, or NULL */
	CUcontext context;
};

/* Find device INDEX; no context yet. Returns 0, or CMD_TROUBLE after a message. */
int measure_open(struct measured_gpu *m, const struct libraries *l, int64_t index);

/* Measure into g, in this order: each takes what the one before has left. Returns as measure_open(). */
int measure_context(struct measured_gpu *m, struct gpufile *g);
int measure_device(const struct measured_gpu *m, struct gpufile *g);
int measure_code(const struct measured_gpu *m, struct gpufile *g);
int measure_handles(const struct measured_gpu *m, struct gpufile *g);

/* Communicators of 1 rank up to all visible devices. A library that is missing is said to be so. */
int measure_nccl(const struct measured_gpu *m, struct gpufile *g);

#endif
