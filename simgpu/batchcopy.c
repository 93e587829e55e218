/* SPDX-License-Identifier: MIT */
/* Many copies in one call, in the order of their list. When one of a list is wrong, none is made. */
#include "simgpu/internal.h"

/* As documented: the legacy default stream cannot take them. */
static CUresult check_stream(CUstream stream)
{
	int device;
	CUresult ret = sim_context_need(&device);

	return ret ? ret : stream && stream != CU_STREAM_LEGACY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool valid(CUmemcpySrcAccessOrder order, unsigned flags)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
	       flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
}

/* Attributes number I hold from copy FIRST[I] on: the first from copy 0, and each from a later one than the
 * last. */
static bool valid_attributes(const CUmemcpyAttributes *attributes, const size_t *first, size_t nr,
			     size_t count)
{
	if (!attributes || !first || !nr || nr > count || first[0])
		return false;
	for (size_t i = 0; i < nr; i++)
		if (!valid(attributes[i].srcAccessOrder, attributes[i].flags) || first[i] >= count ||
		    (i && first[i] <= first[i - 1]))
			return false;
	return true;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attributes, size_t *first, size_t nr_attributes,
			    size_t *failed, CUstream stream)
{
	CUresult ret = check_stream(stream);

	if (failed)
		*failed = SIZE_MAX;
	if (!ret && (!dsts || !srcs || !sizes || !count ||
		     !valid_attributes(attributes, first, nr_attributes, count)))
		ret = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !ret; i++) {
		if (dsts[i] && srcs[i])
			continue;
		if (failed)
			*failed = i;
		ret = CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < count && !ret; i++)
		ret = cuMemcpyAsync(dsts[i], srcs[i], sizes[i], stream);
	return ret;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attributes, size_t *first, size_t nr_attributes,
			       CUstream stream)
{
	return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, first, nr_attributes, NULL, stream);
}

/* ---- in three dimensions --------------------------------------------------------------------- */

/* One side of a copy as cuMemcpy3D has it. */
struct side {
	CUmemorytype type;
	CUdeviceptr address;
	CUarray array;
	size_t x, y, z, pitch, height;
};

/* Bytes of an element: of the array that takes part; of addresses alone, 1. False for what is no array. */
static bool element_bytes(const CUmemcpy3DOperand *o, size_t *unit)
{
	size_t height, bytes;
	CUDA_ARRAY_DESCRIPTOR d;
	char *memory;

	if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return true;
	if (sim_array_layout(o->op.array.array, &memory, unit, &height, &bytes) ||
	    cuArrayGetDescriptor_v2(&d, o->op.array.array))
		return false;
	*unit /= d.Width;
	return true;
}

/* Rows and layers of length 0 are as long as what is copied, as documented. */
static bool read_side(const CUmemcpy3DOperand *o, const CUextent3D *extent, size_t unit, struct side *s)
{
	*s = (struct side){ 0 };
	if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		s->type = CU_MEMORYTYPE_ARRAY;
		s->array = o->op.array.array;
		s->x = o->op.array.offset.x * unit;
		s->y = o->op.array.offset.y;
		s->z = o->op.array.offset.z;
		return true;
	}
	s->type = CU_MEMORYTYPE_UNIFIED;
	s->address = o->op.ptr.ptr;
	s->pitch = unit * (o->op.ptr.rowLength ? o->op.ptr.rowLength : extent->width);
	s->height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : extent->height;
	return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER && s->address;
}

static CUresult convert(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *to)
{
	size_t unit = 1;
	struct side dst, src;

	if (!valid(op->srcAccessOrder, op->flags) || !element_bytes(&op->dst, &unit) ||
	    !element_bytes(&op->src, &unit) || !read_side(&op->dst, &op->extent, unit, &dst) ||
	    !read_side(&op->src, &op->extent, unit, &src))
		return CUDA_ERROR_INVALID_VALUE;
	*to = (CUDA_MEMCPY3D){
		.srcXInBytes = src.x,
		.srcY = src.y,
		.srcZ = src.z,
		.srcMemoryType = src.type,
		.srcDevice = src.address,
		.srcArray = src.array,
		.srcPitch = src.pitch,
		.srcHeight = src.height,
		.dstXInBytes = dst.x,
		.dstY = dst.y,
		.dstZ = dst.z,
		.dstMemoryType = dst.type,
		.dstDevice = dst.address,
		.dstArray = dst.array,
		.dstPitch = dst.pitch,
		.dstHeight = dst.height,
		.WidthInBytes = op->extent.width * unit,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};
	return CUDA_SUCCESS;
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, size_t *failed,
			      unsigned long long flags, CUstream stream)
{
	CUresult ret = check_stream(stream);
	CUDA_MEMCPY3D c;

	if (failed)
		*failed = SIZE_MAX;
	if (!ret && (!count || !operations || flags))
		ret = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !ret; i++) {
		ret = convert(&operations[i], &c);
		if (ret && failed)
			*failed = i;
	}
	for (size_t i = 0; i < count && !ret; i++) {
		convert(&operations[i], &c);
		ret = cuMemcpy3DAsync_v2(&c, stream);
	}
	return ret;
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, unsigned long long flags,
				 CUstream stream)
{
	return cuMemcpy3DBatchAsync(count, operations, NULL, flags, stream);
}
