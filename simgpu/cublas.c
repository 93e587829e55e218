/* SPDX-License-Identifier: MIT */
/*
 * cuBLAS: the state of a handle. The routines themselves compute nothing and are generated (gen_stubs.py).
 *
 * The library's own workspace is charged where a routine runs on a handle without one. PyTorch gives every
 * handle a workspace from its caching allocator (cublasSetWorkspace), and that one is counted there.
 */
#include "simgpu/library.h"
#include "simgpu/memory_model.h"
#include "simgpu/taken.h"

#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

struct cublasContext {
	struct sim_library lib;
	cublasPointerMode_t pointer_mode;
	cublasAtomicsMode_t atomics_mode;
	cublasMath_t math_mode;
	int sm_target;
	uint64_t workspace; /* sim_take(): the handle's own */
};

#define REQUIRE(handle)                                                                                      \
	do {                                                                                                 \
		if (!(handle))                                                                               \
			return CUBLAS_STATUS_NOT_INITIALIZED;                                                \
	} while (0)

/* A routine runs before the program has set a workspace. Where none fits, none is charged. */
static void take_workspace(void *p)
{
	struct cublasContext *handle = p;

	handle->workspace = sim_take(sim_device(), "cublas", sim_model()->cublas_workspace_bytes);
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	if (!handle)
		return CUBLAS_STATUS_INVALID_VALUE;
	*handle = sim_library_handle(sizeof(**handle), "cublas", sim_model()->cublas_handle_bytes);
	if (!*handle)
		return CUBLAS_STATUS_ALLOC_FAILED;
	(*handle)->lib.before_launch = take_workspace;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	REQUIRE(handle);
	sim_give(handle->workspace);
	sim_library_handle_free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
	(void)handle;
	*version = CUBLAS_VERSION;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
	sim_library_property(type, CUBLAS_VERSION, 10000, 100, value);
	return CUBLAS_STATUS_SUCCESS;
}

size_t cublasGetCudartVersion(void)
{
	return CUDART_VERSION;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspaceSizeInBytes)
{
	(void)workspace;
	(void)workspaceSizeInBytes;
	REQUIRE(handle);
	handle->lib.before_launch = NULL;
	return CUBLAS_STATUS_SUCCESS;
}

/* As documented, this goes back to the handle's own workspace. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)
{
	REQUIRE(handle);
	handle->lib.stream = streamId;
	if (!handle->workspace)
		handle->lib.before_launch = take_workspace;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *streamId)
{
	REQUIRE(handle);
	*streamId = handle->lib.stream;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode)
{
	REQUIRE(handle);
	*mode = handle->pointer_mode;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode)
{
	REQUIRE(handle);
	handle->pointer_mode = mode;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t *mode)
{
	REQUIRE(handle);
	*mode = handle->atomics_mode;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode)
{
	REQUIRE(handle);
	handle->atomics_mode = mode;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode)
{
	REQUIRE(handle);
	*mode = handle->math_mode;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
	REQUIRE(handle);
	handle->math_mode = mode;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int *smCountTarget)
{
	REQUIRE(handle);
	*smCountTarget = handle->sm_target;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int smCountTarget)
{
	REQUIRE(handle);
	handle->sm_target = smCountTarget;
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
	switch (status) {
	case CUBLAS_STATUS_SUCCESS:
		return "CUBLAS_STATUS_SUCCESS";
	case CUBLAS_STATUS_NOT_INITIALIZED:
		return "CUBLAS_STATUS_NOT_INITIALIZED";
	case CUBLAS_STATUS_ALLOC_FAILED:
		return "CUBLAS_STATUS_ALLOC_FAILED";
	case CUBLAS_STATUS_INVALID_VALUE:
		return "CUBLAS_STATUS_INVALID_VALUE";
	case CUBLAS_STATUS_ARCH_MISMATCH:
		return "CUBLAS_STATUS_ARCH_MISMATCH";
	case CUBLAS_STATUS_MAPPING_ERROR:
		return "CUBLAS_STATUS_MAPPING_ERROR";
	case CUBLAS_STATUS_EXECUTION_FAILED:
		return "CUBLAS_STATUS_EXECUTION_FAILED";
	case CUBLAS_STATUS_INTERNAL_ERROR:
		return "CUBLAS_STATUS_INTERNAL_ERROR";
	case CUBLAS_STATUS_NOT_SUPPORTED:
		return "CUBLAS_STATUS_NOT_SUPPORTED";
	case CUBLAS_STATUS_LICENSE_ERROR:
		return "CUBLAS_STATUS_LICENSE_ERROR";
	}
	return "unknown cublasStatus_t";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return cublasGetStatusName(status);
}
