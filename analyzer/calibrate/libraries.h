/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's libraries as calibrate finds them at run time: vramtrace links none of them. A function of a
 * library that was preloaded (the simulated GPU) goes before the one in a file.
 */
#ifndef VT_LIBRARIES_H
#define VT_LIBRARIES_H

#include <stdbool.h>

#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn.h>
#include <cufft.h>
#include <cufftXt.h>
#include <cusolverDn.h>
#include <nccl.h>

/* NVML, whose header not every toolkit brings: what calibrate uses of it, as documented. */
struct nvml_memory {
	unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);

struct libraries {
#define LIBRARY(id, ...) bool has_##id;
#define FUNCTION(id, name) __typeof__(name) *name;
#include "analyzer/calibrate/libraries.def"
#undef LIBRARY
#undef FUNCTION
};

/*
 * Look for all of them: as the loader does, then in the wheels of the Python environment VENV (NULL: none). A
 * library has_X when all its functions were found.
 */
void libraries_find(struct libraries *l, const char *venv);

#endif
