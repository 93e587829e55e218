/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's objects as simgpu keeps them. Descriptors remember what was set, because the program reads it back
 * and because sizes (tensor bytes, RNN parameters) follow from it.
 */
#ifndef SIMGPU_CUDNN_STATE_H
#define SIMGPU_CUDNN_STATE_H

#include "simgpu/library.h"

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop

struct cudnnContext {
	struct sim_library lib;
};

struct cudnnTensorStruct {
	cudnnDataType_t type;
	int nr_dims;
	int dim[CUDNN_DIM_MAX];
	int stride[CUDNN_DIM_MAX];
};

struct cudnnFilterStruct {
	cudnnDataType_t type;
	cudnnTensorFormat_t format;
	int nr_dims;
	int dim[CUDNN_DIM_MAX];
};

struct cudnnDropoutStruct {
	float dropout;
	void *states;
	unsigned long long seed;
};

/* Bytes of an element of TYPE; for the vectorised types, of one vector. */
size_t cudnn_type_bytes(cudnnDataType_t type);

#endif
