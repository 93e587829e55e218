/* SPDX-License-Identifier: MIT */
/*
 * cuSOLVER's dense part: the state of a handle. Its routines compute nothing and are generated
 * (gen_stubs.py).
 */
#include "simgpu/library.h"
#include "simgpu/memory_model.h"

#pragma GCC visibility push(default)
#include <cusolverDn.h>
#pragma GCC visibility pop

struct cusolverDnContext {
	struct sim_library lib;
	cusolverDeterministicMode_t deterministic;
};

cusolverStatus_t cusolverGetVersion(int *version)
{
	*version = CUSOLVER_VERSION;
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int *value)
{
	sim_library_property(type, CUSOLVER_VERSION, 1000, 100, value);
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle)
{
	*handle = sim_library_handle(sizeof(**handle), "cusolver", sim_model()->cusolver_handle_bytes);
	if (!*handle)
		return CUSOLVER_STATUS_ALLOC_FAILED;
	(*handle)->deterministic = CUSOLVER_DETERMINISTIC_RESULTS;
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle)
{
	sim_library_handle_free(handle);
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t streamId)
{
	if (!handle)
		return CUSOLVER_STATUS_NOT_INITIALIZED;
	handle->lib.stream = streamId;
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *streamId)
{
	if (!handle)
		return CUSOLVER_STATUS_NOT_INITIALIZED;
	*streamId = handle->lib.stream;
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode)
{
	if (!handle)
		return CUSOLVER_STATUS_NOT_INITIALIZED;
	handle->deterministic = mode;
	return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnGetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t *mode)
{
	if (!handle)
		return CUSOLVER_STATUS_NOT_INITIALIZED;
	*mode = handle->deterministic;
	return CUSOLVER_STATUS_SUCCESS;
}
