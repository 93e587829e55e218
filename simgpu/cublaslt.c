/* SPDX-License-Identifier: MIT */
/*
 * cuBLASLt: descriptors that keep their attributes, one heuristic answer, matrix products that compute
 * nothing.
 *
 * The program may hold a descriptor in a struct of its own (the *Init functions) and copy it as bytes, so its
 * attributes live inside the header's opaque struct, never where a pointer of it points: one record of a tag byte and a
 * value of 1, 4 or 8 bytes after the other, up to a tag of 0. All the attributes that can be set together
 * fit.
 */
#include "simgpu/library.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

struct cublasLtContext {
	struct sim_library lib;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
	if (!lightHandle)
		return CUBLAS_STATUS_INVALID_VALUE;
	*lightHandle = sim_library_new(sizeof(**lightHandle));
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
{
	free(lightHandle);
	return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
	return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
	return CUDART_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
	sim_library_property(type, CUBLAS_VERSION, 10000, 100, value);
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
	return cublasGetStatusName(status);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return cublasGetStatusString(status);
}

#define ATTR_MAX 62	/* (attr + 1) takes six bits of the tag */

static const size_t attr_size[] = { 1, 4, 8 };

/*
 * The record of ATTR among the BYTES at DATA, or where the next one would begin; NULL when there is no room.
 */
static unsigned char *attr_find(void *data, size_t bytes, unsigned attr, bool *found)
{
	unsigned char *p = data, *end = p + bytes;

	*found = false;
	while (p < end && *p) {
		if ((unsigned)(*p >> 2) == attr + 1) {
			*found = true;
			return p;
		}
		p += 1 + attr_size[*p & 3];
	}
	return p < end ? p : NULL;
}

static cublasStatus_t attr_set(void *data, size_t bytes, unsigned attr, const void *value, size_t size)
{
	unsigned char *p;
	unsigned code = 0;
	bool found;

	if (!data || !value)
		return CUBLAS_STATUS_INVALID_VALUE;
	while (code < 3 && attr_size[code] != size)
		code++;
	if (code == 3 || attr > ATTR_MAX)
		return CUBLAS_STATUS_INVALID_VALUE;
	p = attr_find(data, bytes, attr, &found);
	if (!p || p + 1 + size > (unsigned char *)data + bytes || (found && (*p & 3u) != code))
		return CUBLAS_STATUS_INVALID_VALUE;
	*p = (unsigned char)((attr + 1) << 2 | code);
	memcpy(p + 1, value, size);
	return CUBLAS_STATUS_SUCCESS;
}

/* An attribute nobody set is not supported: its default is the library's and would be a guess. */
static cublasStatus_t attr_get(const void *data, size_t bytes, unsigned attr, void *value, size_t size,
			       size_t *written)
{
	unsigned char *p;
	size_t have;
	bool found;

	if (!data)
		return CUBLAS_STATUS_INVALID_VALUE;
	p = attr_find((void *)(uintptr_t)data, bytes, attr, &found);
	if (!found)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	have = attr_size[*p & 3];
	if (written)
		*written = have;
	if (!size)
		return written ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
	if (!value || size != have)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(value, p + 1, size);
	return CUBLAS_STATUS_SUCCESS;
}

/* The functions of one kind of descriptor that differ in nothing but its name. */
#define DESCRIPTOR(Kind, Attributes)                                                                     \
	cublasStatus_t cublasLt##Kind##Destroy(cublasLt##Kind##_t desc)                                  \
	{                                                                                                \
		free(desc);                                                                              \
		return CUBLAS_STATUS_SUCCESS;                                                            \
	}                                                                                                \
	cublasStatus_t cublasLt##Kind##SetAttribute(cublasLt##Kind##_t desc, Attributes attr,            \
						    const void *buf, size_t sizeInBytes)                 \
	{                                                                                                \
		return attr_set(desc, sizeof(*desc), attr, buf, sizeInBytes);                            \
	}                                                                                                \
	cublasStatus_t cublasLt##Kind##GetAttribute(cublasLt##Kind##_t desc, Attributes attr, void *buf, \
						    size_t sizeInBytes, size_t *sizeWritten)             \
	{                                                                                                \
		return attr_get(desc, sizeof(*desc), attr, buf, sizeInBytes, sizeWritten);               \
	}

DESCRIPTOR(MatrixLayout, cublasLtMatrixLayoutAttribute_t)
DESCRIPTOR(MatmulDesc, cublasLtMatmulDescAttributes_t)
DESCRIPTOR(MatrixTransformDesc, cublasLtMatrixTransformDescAttributes_t)
DESCRIPTOR(MatmulPreference, cublasLtMatmulPreferenceAttributes_t)

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t matLayout, size_t size,
						 cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld)
{
	int32_t layout_type = type, batch_count = 1;

	memset(matLayout, 0, size);
	attr_set(matLayout, size, CUBLASLT_MATRIX_LAYOUT_TYPE, &layout_type, sizeof(layout_type));
	attr_set(matLayout, size, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof(rows));
	attr_set(matLayout, size, CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof(cols));
	attr_set(matLayout, size, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof(ld));
	return attr_set(matLayout, size, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch_count,
			sizeof(batch_count));
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows,
					  uint64_t cols, int64_t ld)
{
	*matLayout = sim_zalloc(sizeof(**matLayout));
	return cublasLtMatrixLayoutInit_internal(*matLayout, sizeof(**matLayout), type, rows, cols, ld);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmulDesc, size_t size,
					       cublasComputeType_t computeType, cudaDataType_t scaleType)
{
	int32_t compute = computeType, scale = scaleType;

	memset(matmulDesc, 0, size);
	attr_set(matmulDesc, size, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof(compute));
	return attr_set(matmulDesc, size, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale, sizeof(scale));
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType,
					cudaDataType_t scaleType)
{
	*matmulDesc = sim_zalloc(sizeof(**matmulDesc));
	return cublasLtMatmulDescInit_internal(*matmulDesc, sizeof(**matmulDesc), computeType, scaleType);
}

cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t transformDesc,
							size_t size, cudaDataType scaleType)
{
	int32_t scale = scaleType;

	memset(transformDesc, 0, size);
	return attr_set(transformDesc, size, CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, &scale,
			sizeof(scale));
}

cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *transformDesc,
						 cudaDataType scaleType)
{
	*transformDesc = sim_zalloc(sizeof(**transformDesc));
	return cublasLtMatrixTransformDescInit_internal(*transformDesc, sizeof(**transformDesc), scaleType);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref, size_t size)
{
	memset(pref, 0, size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
	*pref = sim_zalloc(sizeof(**pref));
	return CUBLAS_STATUS_SUCCESS;
}

/*
 * An algorithm that needs no workspace: PyTorch passes its own, preallocated one whatever is asked for here.
 */
static void heuristic_result(cublasLtMatmulHeuristicResult_t *result)
{
	memset(result, 0, sizeof(*result));
	result->state = CUBLAS_STATUS_SUCCESS;
	result->wavesCount = 1.0f;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle,
					      cublasLtMatmulDesc_t operationDesc,
					      cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
					      cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
					      cublasLtMatmulPreference_t preference, int requestedAlgoCount,
					      cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
					      int *returnAlgoCount)
{
	(void)lightHandle;
	(void)preference;
	if (!operationDesc || !Adesc || !Bdesc || !Cdesc || !Ddesc || requestedAlgoCount < 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	heuristic_result(&heuristicResultsArray[0]);
	*returnAlgoCount = 1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t lightHandle, cublasComputeType_t computeType,
					cudaDataType_t scaleType, cudaDataType_t Atype, cudaDataType_t Btype,
					cudaDataType_t Ctype, cudaDataType_t Dtype, int requestedAlgoCount,
					int algoIdsArray[], int *returnAlgoCount)
{
	(void)lightHandle, (void)computeType, (void)scaleType;
	(void)Atype, (void)Btype, (void)Ctype, (void)Dtype;
	if (requestedAlgoCount < 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	algoIdsArray[0] = 0;
	*returnAlgoCount = 1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t lightHandle, cublasComputeType_t computeType,
				      cudaDataType_t scaleType, cudaDataType_t Atype, cudaDataType_t Btype,
				      cudaDataType_t Ctype, cudaDataType_t Dtype, int algoId,
				      cublasLtMatmulAlgo_t *algo)
{
	(void)lightHandle, (void)computeType, (void)scaleType;
	(void)Atype, (void)Btype, (void)Ctype, (void)Dtype;
	if (algoId)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(algo, 0, sizeof(*algo));
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
				       cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
				       cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
				       const cublasLtMatmulAlgo_t *algo,
				       cublasLtMatmulHeuristicResult_t *result)
{
	(void)lightHandle;
	if (!operationDesc || !Adesc || !Bdesc || !Cdesc || !Ddesc || !algo)
		return CUBLAS_STATUS_INVALID_VALUE;
	heuristic_result(result);
	result->algo = *algo;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
						    cublasLtMatmulAlgoConfigAttributes_t attr,
						    const void *buf, size_t sizeInBytes)
{
	return attr_set(algo, sizeof(*algo), attr, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
						    cublasLtMatmulAlgoConfigAttributes_t attr, void *buf,
						    size_t sizeInBytes, size_t *sizeWritten)
{
	return attr_get(algo, sizeof(*algo), attr, buf, sizeInBytes, sizeWritten);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
			      const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc, const void *B,
			      cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C,
			      cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc,
			      const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceSizeInBytes,
			      cudaStream_t stream)
{
	(void)alpha, (void)A, (void)B, (void)beta, (void)C, (void)D;
	(void)algo, (void)workspace, (void)workspaceSizeInBytes;
	if (!lightHandle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!computeDesc || !Adesc || !Bdesc || !Cdesc || !Ddesc)
		return CUBLAS_STATUS_INVALID_VALUE;
	sim_launch(stream);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t lightHandle,
				       cublasLtMatrixTransformDesc_t transformDesc, const void *alpha,
				       const void *A, cublasLtMatrixLayout_t Adesc, const void *beta,
				       const void *B, cublasLtMatrixLayout_t Bdesc, void *C,
				       cublasLtMatrixLayout_t Cdesc, cudaStream_t stream)
{
	(void)transformDesc, (void)alpha, (void)A, (void)Adesc;
	(void)beta, (void)B, (void)Bdesc, (void)C, (void)Cdesc;
	if (!lightHandle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	sim_launch(stream);
	return CUBLAS_STATUS_SUCCESS;
}
