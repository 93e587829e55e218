/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's older convolution API: descriptors, output shapes, and one algorithm that needs no workspace.
 *
 * Everything here is marked deprecated in cuDNN's header; programs of today still call it.
 */
#include "simgpu/cudnn_state.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct cudnnConvolutionStruct {
	int nr_dims;		/* spatial */
	int pad[CUDNN_DIM_MAX], stride[CUDNN_DIM_MAX], dilation[CUDNN_DIM_MAX];
	int groups;
	cudnnMathType_t math_type;
	cudnnReorderType_t reorder_type;
};

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convDesc)
{
	*convDesc = sim_zalloc(sizeof(**convDesc));
	(*convDesc)->groups = 1;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convDesc)
{
	free(convDesc);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convDesc, int arrayLength,
					      const int padA[], const int filterStrideA[],
					      const int dilationA[], cudnnConvolutionMode_t mode,
					      cudnnDataType_t computeType)
{
	size_t bytes = sizeof(int) * (size_t)arrayLength;

	(void)mode, (void)computeType;
	if (!convDesc || arrayLength < 1 || arrayLength > CUDNN_DIM_MAX - 2)
		return CUDNN_STATUS_BAD_PARAM;
	convDesc->nr_dims = arrayLength;
	memcpy(convDesc->pad, padA, bytes);
	memcpy(convDesc->stride, filterStrideA, bytes);
	memcpy(convDesc->dilation, dilationA, bytes);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convDesc, int pad_h, int pad_w,
					      int u, int v, int dilation_h, int dilation_w,
					      cudnnConvolutionMode_t mode, cudnnDataType_t computeType)
{
	return cudnnSetConvolutionNdDescriptor(convDesc, 2, (const int[]){ pad_h, pad_w },
					       (const int[]){ u, v }, (const int[]){ dilation_h, dilation_w },
					       mode, computeType);
}

/* A setter and a getter of one field. */
#define FIELD(Name, type, field)                                                                    \
	cudnnStatus_t cudnnSetConvolution##Name(cudnnConvolutionDescriptor_t convDesc, type value)  \
	{                                                                                           \
		if (!convDesc)                                                                      \
			return CUDNN_STATUS_BAD_PARAM;                                              \
		convDesc->field = value;                                                            \
		return CUDNN_STATUS_SUCCESS;                                                        \
	}                                                                                           \
	cudnnStatus_t cudnnGetConvolution##Name(cudnnConvolutionDescriptor_t convDesc, type *value) \
	{                                                                                           \
		if (!convDesc)                                                                      \
			return CUDNN_STATUS_BAD_PARAM;                                              \
		*value = convDesc->field;                                                           \
		return CUDNN_STATUS_SUCCESS;                                                        \
	}

FIELD(MathType, cudnnMathType_t, math_type)
FIELD(GroupCount, int, groups)
FIELD(ReorderType, cudnnReorderType_t, reorder_type)

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t convDesc,
						    const cudnnTensorDescriptor_t inputTensorDesc,
						    const cudnnFilterDescriptor_t filterDesc, int nbDims,
						    int tensorOuputDimA[])
{
	if (!convDesc || !inputTensorDesc || !filterDesc || nbDims != convDesc->nr_dims + 2 ||
	    inputTensorDesc->nr_dims != nbDims || filterDesc->nr_dims != nbDims)
		return CUDNN_STATUS_BAD_PARAM;
	tensorOuputDimA[0] = inputTensorDesc->dim[0];
	tensorOuputDimA[1] = filterDesc->dim[0];
	for (int i = 0; i < convDesc->nr_dims; i++) {
		int reach = (filterDesc->dim[i + 2] - 1) * convDesc->dilation[i] + 1;

		tensorOuputDimA[i + 2] =
			(inputTensorDesc->dim[i + 2] + 2 * convDesc->pad[i] - reach) / convDesc->stride[i] +
			1;
	}
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convDesc,
						    const cudnnTensorDescriptor_t inputTensorDesc,
						    const cudnnFilterDescriptor_t filterDesc, int *n, int *c,
						    int *h, int *w)
{
	int dim[4];
	cudnnStatus_t status;

	status = cudnnGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc, 4, dim);
	if (status != CUDNN_STATUS_SUCCESS)
		return status;
	*n = dim[0];
	*c = dim[1];
	*h = dim[2];
	*w = dim[3];
	return CUDNN_STATUS_SUCCESS;
}

/*
 * The three directions of a convolution ask for algorithms in the same three ways. Each finds one: it takes
 * no time worth comparing, is deterministic and needs no workspace.
 */
#define ALGORITHMS(Direction, Perf, ALGO, first_t, second_t, third_t)                                       \
	static cudnnStatus_t find_##Direction(int requested, int *returned, Perf *results)                  \
	{                                                                                                   \
		if (requested < 1 || !returned || !results)                                                 \
			return CUDNN_STATUS_BAD_PARAM;                                                      \
		memset(results, 0, sizeof(*results));                                                       \
		results->algo = ALGO;                                                                       \
		results->status = CUDNN_STATUS_SUCCESS;                                                     \
		results->determinism = CUDNN_DETERMINISTIC;                                                 \
		*returned = 1;                                                                              \
		return CUDNN_STATUS_SUCCESS;                                                                \
	}                                                                                                   \
	cudnnStatus_t cudnnGetConvolution##Direction##AlgorithmMaxCount(cudnnHandle_t handle, int *count)   \
	{                                                                                                   \
		(void)handle;                                                                               \
		*count = 1;                                                                                 \
		return CUDNN_STATUS_SUCCESS;                                                                \
	}                                                                                                   \
	cudnnStatus_t cudnnGetConvolution##Direction##Algorithm_v7(                                         \
		cudnnHandle_t handle, const first_t a, const second_t b,                                    \
		const cudnnConvolutionDescriptor_t convDesc, const third_t c, const int requestedAlgoCount, \
		int *returnedAlgoCount, Perf *perfResults)                                                  \
	{                                                                                                   \
		(void)handle, (void)a, (void)b, (void)c, (void)convDesc;                                    \
		return find_##Direction(requestedAlgoCount, returnedAlgoCount, perfResults);                \
	}                                                                                                   \
	cudnnStatus_t cudnnFindConvolution##Direction##Algorithm(                                           \
		cudnnHandle_t handle, const first_t a, const second_t b,                                    \
		const cudnnConvolutionDescriptor_t convDesc, const third_t c, const int requestedAlgoCount, \
		int *returnedAlgoCount, Perf *perfResults)                                                  \
	{                                                                                                   \
		(void)a, (void)b, (void)c, (void)convDesc;                                                  \
		sim_library_launch(handle);                                                                 \
		return find_##Direction(requestedAlgoCount, returnedAlgoCount, perfResults);                \
	}                                                                                                   \
	cudnnStatus_t cudnnFindConvolution##Direction##AlgorithmEx(                                         \
		cudnnHandle_t handle, const first_t a, const void *a_data, const second_t b,                \
		const void *b_data, const cudnnConvolutionDescriptor_t convDesc, const third_t c,           \
		void *c_data, const int requestedAlgoCount, int *returnedAlgoCount, Perf *perfResults,      \
		void *workSpace, size_t workSpaceSizeInBytes)                                               \
	{                                                                                                   \
		(void)a, (void)a_data, (void)b, (void)b_data, (void)c, (void)c_data;                        \
		(void)convDesc, (void)workSpace, (void)workSpaceSizeInBytes;                                \
		sim_library_launch(handle);                                                                 \
		return find_##Direction(requestedAlgoCount, returnedAlgoCount, perfResults);                \
	}

ALGORITHMS(Forward, cudnnConvolutionFwdAlgoPerf_t, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
	   cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t)
ALGORITHMS(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
	   cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t)
ALGORITHMS(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
	   cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
