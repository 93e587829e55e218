/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of question files: libraries that answer everything stand in for NVIDIA's, and look at all that they
 * are given as those do, so that a pointer that is none, or an array that is too short, is found.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/calibrate/questions.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t used; /* so that nothing that is looked at can be left out */
static char handle;
static unsigned nr_open; /* descriptors that are not finalized: each is a call deeper */

#define OPEN_MAX 64

static void use(const void *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		used += ((const uint8_t *)p)[i];
}

static cudnnStatus_t create_handle(cudnnHandle_t *out)
{
	*out = (cudnnHandle_t)&handle;
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_handle(cudnnHandle_t h)
{
	return h == (cudnnHandle_t)&handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static void *new_thing(void)
{
	return calloc(1, 8);
}

static cudnnStatus_t create_descriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
	if ((int)type < 0)
		return CUDNN_STATUS_BAD_PARAM;
	if (++nr_open > OPEN_MAX)
		abort();
	*out = new_thing();
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_descriptor(cudnnBackendDescriptor_t d)
{
	nr_open = 0; /* the graph is done */
	free(d);
	return CUDNN_STATUS_SUCCESS;
}

static size_t element_bytes(cudnnBackendAttributeType_t type)
{
	switch (type) {
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_DOUBLE:
		return 8;
	case CUDNN_TYPE_FRACTION:
		return 16;
	case CUDNN_TYPE_BOOLEAN:
	case CUDNN_TYPE_CHAR:
		return 1;
	default:
		return 4;
	}
}

static cudnnStatus_t set_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
				   cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
	use(d, 8);
	use(elements, (size_t)count * element_bytes(type));
	if (type == CUDNN_TYPE_VOID_PTR && count)
		abort(); /* no text has an address in it */
	for (int64_t i = 0; i < count && element_bytes(type) == 8; i++) {
		void *p;

		memcpy(&p, (const char *)elements + 8 * i, sizeof(p));
		if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && p)
			use(p, 8);
		if (type == CUDNN_TYPE_HANDLE && p != &handle)
			abort();
	}
	return name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT && !count ? CUDNN_STATUS_BAD_PARAM
								  : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
				   cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *out)
{
	(void)name;
	use(d, 8);
	*count = room;
	if (type == CUDNN_TYPE_INT64)
		memset(out, 0, 8);
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(cudnnBackendDescriptor_t d)
{
	use(d, 8);
	nr_open--;
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t create_dropout(cudnnDropoutDescriptor_t *out)
{
	*out = new_thing();
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_dropout(cudnnDropoutDescriptor_t d)
{
	free(d);
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_dropout(cudnnDropoutDescriptor_t d, cudnnHandle_t h, float p, void *states,
				 size_t bytes, unsigned long long seed)
{
	(void)h, (void)p, (void)states, (void)bytes, (void)seed;
	use(d, 8);
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t dropout_size(cudnnHandle_t h, size_t *bytes)
{
	(void)h;
	*bytes = 4096;
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t create_rnn(cudnnRNNDescriptor_t *out)
{
	*out = new_thing();
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_rnn(cudnnRNNDescriptor_t d)
{
	free(d);
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_rnn(cudnnRNNDescriptor_t d, cudnnRNNAlgo_t algo, cudnnRNNMode_t cell,
			     cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
			     cudnnRNNInputMode_t input_mode, cudnnDataType_t type, cudnnDataType_t precision,
			     cudnnMathType_t math, int32_t input, int32_t hidden, int32_t projected,
			     int32_t layers, cudnnDropoutDescriptor_t dropout, uint32_t flags)
{
	(void)algo, (void)cell, (void)bias, (void)direction, (void)input_mode, (void)type, (void)precision;
	(void)math, (void)input, (void)projected, (void)layers, (void)flags;
	use(d, 8);
	use(dropout, 8);
	return hidden < 0 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t create_rnn_data(cudnnRNNDataDescriptor_t *out)
{
	*out = new_thing();
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_rnn_data(cudnnRNNDataDescriptor_t d)
{
	free(d);
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_rnn_data(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
				  cudnnRNNDataLayout_t layout, int length, int batch, int width,
				  const int lengths[], void *fill)
{
	(void)type, (void)layout, (void)length, (void)width, (void)fill;
	use(d, 8);
	use(lengths, (size_t)batch * sizeof(*lengths));
	return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t rnn_sizes(cudnnHandle_t h, cudnnRNNDescriptor_t d, cudnnForwardMode_t mode,
			       cudnnRNNDataDescriptor_t x, size_t *workspace, size_t *reserve)
{
	(void)h, (void)mode;
	use(d, 8);
	use(x, 8);
	*workspace = *reserve = 1 << 20;
	return CUDNN_STATUS_SUCCESS;
}

static CUresult take_memory(CUdeviceptr *out, size_t bytes)
{
	*out = bytes;
	return CUDA_SUCCESS;
}

static CUresult give_memory(CUdeviceptr p)
{
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static cufftResult create_fft(cufftHandle *out)
{
	*out = 1;
	return CUFFT_SUCCESS;
}

static cufftResult destroy_fft(cufftHandle plan)
{
	return plan == 1 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

static cufftResult no_work_area(cufftHandle plan, int automatic)
{
	(void)plan, (void)automatic;
	return CUFFT_SUCCESS;
}

static cufftResult make_fft(cufftHandle plan, int rank, long long int *n, long long int *inembed,
			    long long int istride, long long int idist, cudaDataType in,
			    long long int *onembed, long long int ostride, long long int odist,
			    cudaDataType out, long long int batch, size_t *work, cudaDataType execution)
{
	(void)plan, (void)istride, (void)idist, (void)in, (void)ostride, (void)odist, (void)out,
		(void)execution;
	use(n, (size_t)rank * sizeof(*n));
	if (inembed)
		use(inembed, (size_t)rank * sizeof(*n));
	if (onembed)
		use(onembed, (size_t)rank * sizeof(*n));
	*work = 0;
	return batch < 0 ? CUFFT_INVALID_SIZE : CUFFT_SUCCESS;
}

static const struct libraries libraries = {
	.has_cudnn = true,
	.has_cufft = true,
	.cuMemAlloc_v2 = take_memory,
	.cuMemFree_v2 = give_memory,
	.cudnnCreate = create_handle,
	.cudnnDestroy = destroy_handle,
	.cudnnBackendCreateDescriptor = create_descriptor,
	.cudnnBackendDestroyDescriptor = destroy_descriptor,
	.cudnnBackendSetAttribute = set_attribute,
	.cudnnBackendGetAttribute = get_attribute,
	.cudnnBackendFinalize = finalize,
	.cudnnCreateDropoutDescriptor = create_dropout,
	.cudnnDestroyDropoutDescriptor = destroy_dropout,
	.cudnnSetDropoutDescriptor = set_dropout,
	.cudnnDropoutGetStatesSize = dropout_size,
	.cudnnCreateRNNDescriptor = create_rnn,
	.cudnnDestroyRNNDescriptor = destroy_rnn,
	.cudnnSetRNNDescriptor_v8 = set_rnn,
	.cudnnCreateRNNDataDescriptor = create_rnn_data,
	.cudnnDestroyRNNDataDescriptor = destroy_rnn_data,
	.cudnnSetRNNDataDescriptor = set_rnn_data,
	.cudnnGetRNNTempSpaceSizes = rnn_sizes,
	.cufftCreate = create_fft,
	.cufftDestroy = destroy_fft,
	.cufftSetAutoAllocation = no_work_area,
	.cufftXtMakePlanMany = make_fft,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct questions_result result = { 0 };
	struct gpufile g = { 0 };

	hostile_quiet();
	if (questions_answer(&libraries, hostile_file(data, size), &g, &result))
		abort();
	if (result.nr_answered != g.nr_answers)
		abort();
	gpufile_release(&g);
	return 0;
}
