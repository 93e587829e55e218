/* SPDX-License-Identifier: MIT */
/*
 * Serving a recording's requests by PyTorch itself: they are written to a nameless file while the recording is read, and a
 * Python with PyTorch, on the simulated GPU, has its own allocator serve them (python/vramtrace/torch_engine.py).
 */
#ifndef VT_TORCHENGINE_H
#define VT_TORCHENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TORCHENGINE_DEVICES 64

struct torchengine_device {
	bool is_there;
	uint64_t peak_reserved, peak_allocated, failed;
	bool is_over; /* a request failed that the program was served */
};

struct torchengine {
	FILE *requests, *result; /* in memory: nothing is left of them when we are interrupted */
	struct torchengine_device device[TORCHENGINE_DEVICES];
};

/* What it runs on. */
struct torchengine_gpu {
	const char *python;  /* "python3" */
	const char *conf;    /* PYTORCH_CUDA_ALLOC_CONF */
	bool is_uncached;
	uint64_t capacity;   /* bytes, 0 = endless */
	unsigned nr_devices;
};

/* Begin the file of requests. 0, or CMD_TROUBLE after a message; torchengine_close() is needed either way. */
int torchengine_open(struct torchengine *t);
void torchengine_close(struct torchengine *t);

/* A request, one that failed, a free, the cache emptied. */
void torchengine_alloc(struct torchengine *t, uint32_t device, uint32_t slot, uint64_t bytes, uint16_t stream, uint32_t pool);
void torchengine_failed(struct torchengine *t, uint32_t device, uint64_t bytes, uint16_t stream);
void torchengine_free(struct torchengine *t, uint32_t device, uint32_t slot);
void torchengine_empty_cache(struct torchengine *t, uint32_t device);

/* The program gives its allocator other settings, of all devices. */
void torchengine_give(struct torchengine *t, const char *settings);

/* Have them served: t->device. 0, or CMD_TROUBLE after a message. */
int torchengine_run(struct torchengine *t, const struct torchengine_gpu *gpu);

#endif
