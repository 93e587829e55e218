/* SPDX-License-Identifier: MIT */
/*
 * cuSPARSE: handle, matrix descriptors of the older API, sparse and dense descriptors of the generic one.
 *
 * The descriptors remember sizes and pointers, which programs read back. A product whose number of nonzeros
 * only a kernel could know (SpGEMM) has none, as every other kernel result reads 0.
 */
#include "simgpu/library.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include <cusparse.h>
#pragma GCC visibility pop

struct cusparseContext {
	struct sim_library lib;
	cusparsePointerMode_t pointer_mode;
};

struct cusparseMatDescr {
	cusparseMatrixType_t type;
	cusparseFillMode_t fill_mode;
	cusparseDiagType_t diag_type;
	cusparseIndexBase_t base;
};

struct cusparseSpMatDescr {
	cusparseFormat_t format;
	int64_t rows, cols, nnz;
	void *values;
	cusparseIndexBase_t base;
	int nr_batches;
	cusparseFillMode_t fill_mode;
	cusparseDiagType_t diag_type;
};

struct cusparseDnMatDescr {
	int64_t rows, cols, ld;
	void *values;
	cudaDataType type;
	cusparseOrder_t order;
	int nr_batches;
	int64_t batch_stride;
};

struct cusparseDnVecDescr {
	int64_t size;
	void *values;
	cudaDataType type;
};

#define REQUIRE(object)                                         \
	do {                                                    \
		if (!(object))                                  \
			return CUSPARSE_STATUS_NOT_INITIALIZED; \
	} while (0)

cusparseStatus_t cusparseCreate(cusparseHandle_t *handle)
{
	*handle = sim_library_new(sizeof(**handle));
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroy(cusparseHandle_t handle)
{
	free(handle);
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int *version)
{
	(void)handle;
	*version = CUSPARSE_VERSION;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int *value)
{
	sim_library_property(type, CUSPARSE_VERSION, 1000, 100, value);
	return CUSPARSE_STATUS_SUCCESS;
}

const char *cusparseGetErrorName(cusparseStatus_t status)
{
	static const char *const names[] = {
		[CUSPARSE_STATUS_SUCCESS] = "CUSPARSE_STATUS_SUCCESS",
		[CUSPARSE_STATUS_NOT_INITIALIZED] = "CUSPARSE_STATUS_NOT_INITIALIZED",
		[CUSPARSE_STATUS_ALLOC_FAILED] = "CUSPARSE_STATUS_ALLOC_FAILED",
		[CUSPARSE_STATUS_INVALID_VALUE] = "CUSPARSE_STATUS_INVALID_VALUE",
		[CUSPARSE_STATUS_ARCH_MISMATCH] = "CUSPARSE_STATUS_ARCH_MISMATCH",
		[CUSPARSE_STATUS_MAPPING_ERROR] = "CUSPARSE_STATUS_MAPPING_ERROR",
		[CUSPARSE_STATUS_EXECUTION_FAILED] = "CUSPARSE_STATUS_EXECUTION_FAILED",
		[CUSPARSE_STATUS_INTERNAL_ERROR] = "CUSPARSE_STATUS_INTERNAL_ERROR",
		[CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED] = "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
		[CUSPARSE_STATUS_ZERO_PIVOT] = "CUSPARSE_STATUS_ZERO_PIVOT",
		[CUSPARSE_STATUS_NOT_SUPPORTED] = "CUSPARSE_STATUS_NOT_SUPPORTED",
		[CUSPARSE_STATUS_INSUFFICIENT_RESOURCES] = "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES",
	};

	return (size_t)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown cusparseStatus_t";
}

const char *cusparseGetErrorString(cusparseStatus_t status)
{
	return cusparseGetErrorName(status);
}

cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t streamId)
{
	REQUIRE(handle);
	handle->lib.stream = streamId;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *streamId)
{
	REQUIRE(handle);
	*streamId = handle->lib.stream;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode)
{
	REQUIRE(handle);
	handle->pointer_mode = mode;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode)
{
	REQUIRE(handle);
	*mode = handle->pointer_mode;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *descrA)
{
	*descrA = sim_zalloc(sizeof(**descrA));
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t descrA)
{
	free(descrA);
	return CUSPARSE_STATUS_SUCCESS;
}

/* A setter and a getter of one field of the older API's matrix descriptor. */
#define FIELD(Name, field_t, field)                                                     \
	cusparseStatus_t cusparseSetMat##Name(cusparseMatDescr_t descrA, field_t value) \
	{                                                                               \
		REQUIRE(descrA);                                                        \
		descrA->field = value;                                                  \
		return CUSPARSE_STATUS_SUCCESS;                                         \
	}                                                                               \
	field_t cusparseGetMat##Name(const cusparseMatDescr_t descrA)                   \
	{                                                                               \
		return descrA->field;                                                   \
	}

FIELD(Type, cusparseMatrixType_t, type)
FIELD(FillMode, cusparseFillMode_t, fill_mode)
FIELD(DiagType, cusparseDiagType_t, diag_type)
FIELD(IndexBase, cusparseIndexBase_t, base)

static cusparseStatus_t sparse_new(cusparseSpMatDescr_t *out, cusparseFormat_t format, int64_t rows,
				   int64_t cols, int64_t nnz, void *values, cusparseIndexBase_t base)
{
	*out = sim_alloc(sizeof(**out));
	**out = (struct cusparseSpMatDescr){
		.format = format,
		.rows = rows,
		.cols = cols,
		.nnz = nnz,
		.values = values,
		.base = base,
		.nr_batches = 1,
	};
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *spMatDescr, int64_t rows, int64_t cols, int64_t nnz,
				   void *cooRowInd, void *cooColInd, void *cooValues,
				   cusparseIndexType_t cooIdxType, cusparseIndexBase_t idxBase,
				   cudaDataType valueType)
{
	(void)cooRowInd, (void)cooColInd, (void)cooIdxType, (void)valueType;
	return sparse_new(spMatDescr, CUSPARSE_FORMAT_COO, rows, cols, nnz, cooValues, idxBase);
}

cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *spMatDescr, int64_t rows, int64_t cols, int64_t nnz,
				   void *csrRowOffsets, void *csrColInd, void *csrValues,
				   cusparseIndexType_t csrRowOffsetsType, cusparseIndexType_t csrColIndType,
				   cusparseIndexBase_t idxBase, cudaDataType valueType)
{
	(void)csrRowOffsets, (void)csrColInd, (void)csrRowOffsetsType, (void)csrColIndType, (void)valueType;
	return sparse_new(spMatDescr, CUSPARSE_FORMAT_CSR, rows, cols, nnz, csrValues, idxBase);
}

cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *spMatDescr, int64_t rows, int64_t cols, int64_t nnz,
				   void *cscColOffsets, void *cscRowInd, void *cscValues,
				   cusparseIndexType_t cscColOffsetsType, cusparseIndexType_t cscRowIndType,
				   cusparseIndexBase_t idxBase, cudaDataType valueType)
{
	(void)cscColOffsets, (void)cscRowInd, (void)cscColOffsetsType, (void)cscRowIndType, (void)valueType;
	return sparse_new(spMatDescr, CUSPARSE_FORMAT_CSC, rows, cols, nnz, cscValues, idxBase);
}

cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t spMatDescr)
{
	free((void *)(uintptr_t)spMatDescr);
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t spMatDescr, int64_t *rows, int64_t *cols,
				      int64_t *nnz)
{
	REQUIRE(spMatDescr);
	*rows = spMatDescr->rows;
	*cols = spMatDescr->cols;
	*nnz = spMatDescr->nnz;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t spMatDescr, cusparseFormat_t *format)
{
	REQUIRE(spMatDescr);
	*format = spMatDescr->format;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatGetIndexBase(cusparseConstSpMatDescr_t spMatDescr, cusparseIndexBase_t *idxBase)
{
	REQUIRE(spMatDescr);
	*idxBase = spMatDescr->base;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatGetValues(cusparseSpMatDescr_t spMatDescr, void **values)
{
	REQUIRE(spMatDescr);
	*values = spMatDescr->values;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t spMatDescr, void *values)
{
	REQUIRE(spMatDescr);
	spMatDescr->values = values;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatGetStridedBatch(cusparseConstSpMatDescr_t spMatDescr, int *batchCount)
{
	REQUIRE(spMatDescr);
	*batchCount = spMatDescr->nr_batches;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCooSetStridedBatch(cusparseSpMatDescr_t spMatDescr, int batchCount,
					    int64_t batchStride)
{
	(void)batchStride;
	REQUIRE(spMatDescr);
	spMatDescr->nr_batches = batchCount;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t spMatDescr, int batchCount,
					    int64_t offsetsBatchStride, int64_t columnsValuesBatchStride)
{
	(void)columnsValuesBatchStride;
	return cusparseCooSetStridedBatch(spMatDescr, batchCount, offsetsBatchStride);
}

/* The two attributes there are, each an int-sized enumeration; NULL for another. */
static void *sparse_attribute(struct cusparseSpMatDescr *d, cusparseSpMatAttribute_t attribute)
{
	return attribute == CUSPARSE_SPMAT_FILL_MODE   ? (void *)&d->fill_mode
	       : attribute == CUSPARSE_SPMAT_DIAG_TYPE ? (void *)&d->diag_type
						       : NULL;
}

cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t spMatDescr,
					   cusparseSpMatAttribute_t attribute, void *data, size_t dataSize)
{
	void *field;

	REQUIRE(spMatDescr);
	field = sparse_attribute(spMatDescr, attribute);
	if (!field || dataSize != sizeof(spMatDescr->fill_mode))
		return CUSPARSE_STATUS_INVALID_VALUE;
	memcpy(field, data, dataSize);
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatGetAttribute(cusparseConstSpMatDescr_t spMatDescr,
					   cusparseSpMatAttribute_t attribute, void *data, size_t dataSize)
{
	void *field;

	REQUIRE(spMatDescr);
	field = sparse_attribute((struct cusparseSpMatDescr *)(uintptr_t)spMatDescr, attribute);
	if (!field || dataSize != sizeof(spMatDescr->fill_mode))
		return CUSPARSE_STATUS_INVALID_VALUE;
	memcpy(data, field, dataSize);
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *dnMatDescr, int64_t rows, int64_t cols, int64_t ld,
				     void *values, cudaDataType valueType, cusparseOrder_t order)
{
	*dnMatDescr = sim_alloc(sizeof(**dnMatDescr));
	**dnMatDescr = (struct cusparseDnMatDescr){ rows, cols, ld, values, valueType, order, 1, 0 };
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t dnMatDescr)
{
	free((void *)(uintptr_t)dnMatDescr);
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDnMatGet(cusparseDnMatDescr_t dnMatDescr, int64_t *rows, int64_t *cols, int64_t *ld,
				  void **values, cudaDataType *type, cusparseOrder_t *order)
{
	REQUIRE(dnMatDescr);
	*rows = dnMatDescr->rows;
	*cols = dnMatDescr->cols;
	*ld = dnMatDescr->ld;
	*values = dnMatDescr->values;
	*type = dnMatDescr->type;
	*order = dnMatDescr->order;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t dnMatDescr, int batchCount,
					      int64_t batchStride)
{
	REQUIRE(dnMatDescr);
	dnMatDescr->nr_batches = batchCount;
	dnMatDescr->batch_stride = batchStride;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDnMatGetStridedBatch(cusparseConstDnMatDescr_t dnMatDescr, int *batchCount,
					      int64_t *batchStride)
{
	REQUIRE(dnMatDescr);
	*batchCount = dnMatDescr->nr_batches;
	*batchStride = dnMatDescr->batch_stride;
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *dnVecDescr, int64_t size, void *values,
				     cudaDataType valueType)
{
	*dnVecDescr = sim_alloc(sizeof(**dnVecDescr));
	**dnVecDescr = (struct cusparseDnVecDescr){ size, values, valueType };
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t dnVecDescr)
{
	free((void *)(uintptr_t)dnVecDescr);
	return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDnVecGet(cusparseDnVecDescr_t dnVecDescr, int64_t *size, void **values,
				  cudaDataType *valueType)
{
	REQUIRE(dnVecDescr);
	*size = dnVecDescr->size;
	*values = dnVecDescr->values;
	*valueType = dnVecDescr->type;
	return CUSPARSE_STATUS_SUCCESS;
}
