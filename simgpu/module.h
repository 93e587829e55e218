/* SPDX-License-Identifier: MIT */
/* module: what a module's image names: kernels, and variables with an address for each device that asked for
 * one. */
#ifndef SIMGPU_MODULE_H
#define SIMGPU_MODULE_H

#include "simgpu/internal.h"

struct sim_variable;

struct sim_symbols {
	bool is_read; /* false: the image does not tell */
	char **kernels;
	size_t nr_kernels;
	struct sim_variable *variables;
	size_t variable_bytes; /* of those that take memory beside the image: which hold no value from it */
};

/* Read what IMAGE defines for a device of CC; everything is copied. */
void sim_symbols_read(struct sim_symbols *symbols, const void *image, int cc);
void sim_symbols_release(struct sim_symbols *symbols);

/* Address and size of the variable NAME on DEV, each if wanted; not found: there is none. */
CUresult sim_symbols_variable(struct sim_symbols *symbols, const char *name, int dev, CUdeviceptr *dptr,
			      size_t *bytes);

#endif
