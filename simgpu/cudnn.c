/* SPDX-License-Identifier: MIT */
/* cuDNN: handle, versions, and the tensor, filter and dropout descriptors. */
#include "simgpu/cudnn_state.h"
#include "simgpu/handle.h"
#include "simgpu/memory_model.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The version of the cuDNN that the program brings, which it compares with the one it was built for. That
 * library is loaded, though our functions go first: its own answer is the right one, and asks no GPU.
 */
static size_t version(void)
{
	static _Atomic(size_t (*)(void)) known; /* PyTorch asks at each attention: looked up once */
	size_t (*real)(void) = atomic_load_explicit(&known, memory_order_relaxed);
	void *library;

	if (!real) {
		library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
		real = library ? (size_t(*)(void))sim_real_symbol(library, "cudnnGetVersion") : NULL;
		if (!real || real == cudnnGetVersion)
			return CUDNN_VERSION;
		atomic_store_explicit(&known, real, memory_order_relaxed);
	}
	return real();
}

size_t cudnnGetVersion(void)
{
	return version();
}

size_t cudnnGetMaxDeviceVersion(void)
{
	return CUDNN_MAX_DEVICE_VERSION;
}

size_t cudnnGetCudartVersion(void)
{
	return CUDART_VERSION;
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int *value)
{
	sim_library_property(type, version(), 10000, 100, value);
	return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
	switch (CUDNN_STATUS_CATEGORY(status)) {
	case CUDNN_STATUS_SUCCESS:
		return "CUDNN_STATUS_SUCCESS";
	case CUDNN_STATUS_NOT_INITIALIZED:
		return "CUDNN_STATUS_NOT_INITIALIZED";
	case CUDNN_STATUS_BAD_PARAM:
		return "CUDNN_STATUS_BAD_PARAM";
	case CUDNN_STATUS_NOT_SUPPORTED:
		return "CUDNN_STATUS_NOT_SUPPORTED";
	case CUDNN_STATUS_INTERNAL_ERROR:
		return "CUDNN_STATUS_INTERNAL_ERROR";
	case CUDNN_STATUS_EXECUTION_FAILED:
		return "CUDNN_STATUS_EXECUTION_FAILED";
	default:
		return "unknown cudnnStatus_t";
	}
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
	if (max_size)
		*message = '\0';
}

cudnnStatus_t cudnnQueryRuntimeError(cudnnHandle_t handle, cudnnStatus_t *rstatus, cudnnErrQueryMode_t mode,
				     cudnnRuntimeTag_t *tag)
{
	(void)handle, (void)mode, (void)tag;
	*rstatus = CUDNN_STATUS_SUCCESS;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
	*handle = sim_library_handle(sizeof(**handle), "cudnn", sim_model()->cudnn_handle_bytes);
	return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
	sim_library_handle_free(handle);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)
{
	if (!handle)
		return CUDNN_STATUS_NOT_INITIALIZED;
	handle->lib.stream = streamId;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *streamId)
{
	if (!handle)
		return CUDNN_STATUS_NOT_INITIALIZED;
	*streamId = handle->lib.stream;
	return CUDNN_STATUS_SUCCESS;
}

size_t cudnn_type_bytes(cudnnDataType_t type)
{
	switch (type) {
	case CUDNN_DATA_DOUBLE:
	case CUDNN_DATA_INT64:
		return 8;
	case CUDNN_DATA_HALF:
	case CUDNN_DATA_BFLOAT16:
		return 2;
	case CUDNN_DATA_INT8:
	case CUDNN_DATA_UINT8:
	case CUDNN_DATA_BOOLEAN:
	case CUDNN_DATA_FP8_E4M3:
	case CUDNN_DATA_FP8_E5M2:
		return 1;
	default:
		return 4;
	}
}

/* Dense strides of DIM in ORDER, the dimension that varies fastest last. */
static void dense_strides(const int *dim, int nr_dims, bool channels_last, int *stride)
{
	int step = 1;

	if (channels_last && nr_dims > 2) {
		stride[1] = 1;
		step = dim[1];
		for (int i = nr_dims - 1; i > 1; i--) {
			stride[i] = step;
			step *= dim[i];
		}
		stride[0] = step;
		return;
	}
	for (int i = nr_dims - 1; i >= 0; i--) {
		stride[i] = step;
		step *= dim[i];
	}
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensorDesc)
{
	*tensorDesc = sim_zalloc(sizeof(**tensorDesc));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensorDesc)
{
	free(tensorDesc);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc, cudnnDataType_t dataType,
					 int nbDims, const int dimA[], const int strideA[])
{
	if (!tensorDesc || nbDims < 1 || nbDims > CUDNN_DIM_MAX)
		return CUDNN_STATUS_BAD_PARAM;
	tensorDesc->type = dataType;
	tensorDesc->nr_dims = nbDims;
	memcpy(tensorDesc->dim, dimA, sizeof(*dimA) * (size_t)nbDims);
	memcpy(tensorDesc->stride, strideA, sizeof(*strideA) * (size_t)nbDims);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensorDesc, cudnnTensorFormat_t format,
					   cudnnDataType_t dataType, int nbDims, const int dimA[])
{
	int stride[CUDNN_DIM_MAX];

	if (nbDims < 1 || nbDims > CUDNN_DIM_MAX)
		return CUDNN_STATUS_BAD_PARAM;
	dense_strides(dimA, nbDims, format == CUDNN_TENSOR_NHWC, stride);
	return cudnnSetTensorNdDescriptor(tensorDesc, dataType, nbDims, dimA, stride);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensorDesc, cudnnTensorFormat_t format,
					 cudnnDataType_t dataType, int n, int c, int h, int w)
{
	return cudnnSetTensorNdDescriptorEx(tensorDesc, format, dataType, 4, (const int[]){ n, c, h, w });
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensorDesc, cudnnDataType_t dataType,
					   int n, int c, int h, int w, int nStride, int cStride, int hStride,
					   int wStride)
{
	return cudnnSetTensorNdDescriptor(tensorDesc, dataType, 4, (const int[]){ n, c, h, w },
					  (const int[]){ nStride, cStride, hStride, wStride });
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensorDesc, int nbDimsRequested,
					 cudnnDataType_t *dataType, int *nbDims, int dimA[], int strideA[])
{
	if (!tensorDesc)
		return CUDNN_STATUS_BAD_PARAM;
	*dataType = tensorDesc->type;
	*nbDims = tensorDesc->nr_dims;
	for (int i = 0; i < tensorDesc->nr_dims && i < nbDimsRequested; i++) {
		dimA[i] = tensorDesc->dim[i];
		strideA[i] = tensorDesc->stride[i];
	}
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensorDesc, size_t *size)
{
	size_t last = 0;

	if (!tensorDesc)
		return CUDNN_STATUS_BAD_PARAM;
	for (int i = 0; i < tensorDesc->nr_dims; i++)
		last += (size_t)(tensorDesc->dim[i] - 1) * (size_t)tensorDesc->stride[i];
	*size = tensorDesc->nr_dims ? (last + 1) * cudnn_type_bytes(tensorDesc->type) : 0;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filterDesc)
{
	*filterDesc = sim_zalloc(sizeof(**filterDesc));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filterDesc)
{
	free(filterDesc);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType,
					 cudnnTensorFormat_t format, int nbDims, const int filterDimA[])
{
	if (!filterDesc || nbDims < 1 || nbDims > CUDNN_DIM_MAX)
		return CUDNN_STATUS_BAD_PARAM;
	filterDesc->type = dataType;
	filterDesc->format = format;
	filterDesc->nr_dims = nbDims;
	memcpy(filterDesc->dim, filterDimA, sizeof(*filterDimA) * (size_t)nbDims);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType,
					 cudnnTensorFormat_t format, int k, int c, int h, int w)
{
	return cudnnSetFilterNdDescriptor(filterDesc, dataType, format, 4, (const int[]){ k, c, h, w });
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filterDesc, int nbDimsRequested,
					 cudnnDataType_t *dataType, cudnnTensorFormat_t *format, int *nbDims,
					 int filterDimA[])
{
	if (!filterDesc)
		return CUDNN_STATUS_BAD_PARAM;
	*dataType = filterDesc->type;
	*format = filterDesc->format;
	*nbDims = filterDesc->nr_dims;
	for (int i = 0; i < filterDesc->nr_dims && i < nbDimsRequested; i++)
		filterDimA[i] = filterDesc->dim[i];
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filterDesc, size_t *size)
{
	size_t elements = 1;

	if (!filterDesc)
		return CUDNN_STATUS_BAD_PARAM;
	for (int i = 0; i < filterDesc->nr_dims; i++)
		elements *= (size_t)filterDesc->dim[i];
	*size = filterDesc->nr_dims ? elements * cudnn_type_bytes(filterDesc->type) : 0;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t *dropoutDesc)
{
	*dropoutDesc = sim_zalloc(sizeof(**dropoutDesc));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc)
{
	free(dropoutDesc);
	return CUDNN_STATUS_SUCCESS;
}

/* Model: one 12-byte generator state for each thread that the device can hold. */
cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *sizeInBytes)
{
	const struct sim_profile *profile = sim_profile();

	(void)handle;
	*sizeInBytes = (size_t)profile->sms * (size_t)profile->threads_per_sm * 12;
	return CUDNN_STATUS_SUCCESS;
}

/* Model: a mask of one bit an element. */
cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t xdesc, size_t *sizeInBytes)
{
	size_t elements = 1;

	if (!xdesc)
		return CUDNN_STATUS_BAD_PARAM;
	for (int i = 0; i < xdesc->nr_dims; i++)
		elements *= (size_t)xdesc->dim[i];
	*sizeInBytes = (elements + 7) / 8;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc, cudnnHandle_t handle,
					    float dropout, void *states, size_t stateSizeInBytes,
					    unsigned long long seed)
{
	(void)handle, (void)stateSizeInBytes;
	if (!dropoutDesc)
		return CUDNN_STATUS_BAD_PARAM;
	dropoutDesc->dropout = dropout;
	dropoutDesc->states = states;
	dropoutDesc->seed = seed;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc, cudnnHandle_t handle,
					float dropout, void *states, size_t stateSizeInBytes,
					unsigned long long seed)
{
	sim_library_launch(handle);
	return cudnnRestoreDropoutDescriptor(dropoutDesc, handle, dropout, states, stateSizeInBytes, seed);
}

cudnnStatus_t cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc, cudnnHandle_t handle,
					float *dropout, void **states, unsigned long long *seed)
{
	(void)handle;
	if (!dropoutDesc)
		return CUDNN_STATUS_BAD_PARAM;
	*dropout = dropoutDesc->dropout;
	*states = dropoutDesc->states;
	*seed = dropoutDesc->seed;
	return CUDNN_STATUS_SUCCESS;
}
