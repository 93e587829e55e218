/* SPDX-License-Identifier: MIT */
/* Copies of the runtime half in two and three dimensions, to and from arrays, and many at a time. */
#include <string.h>

#include "simgpu/runtime.h"

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes) &&
		       sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP),
	       "the same layout");

/* Bytes of an element of ARRAY; 0 if it is none. */
static size_t element_bytes(cudaArray_const_t array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (sim_driver()->cuArray3DGetDescriptor_v2(&d, (CUarray)(uintptr_t)array))
		return 0;
	switch (d.Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return d.NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2 * (size_t)d.NumChannels;
	default:
		return 4 * (size_t)d.NumChannels;
	}
}

/* An address says by itself whether it is the host's. */
static CUmemorytype side(cudaArray_const_t array)
{
	return array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
}

/* As documented: each side has an array or an address; elements are those of the array that takes part. */
static cudaError_t convert(cudaArray_t src_array, struct cudaPos src_pos, struct cudaPitchedPtr src,
			   cudaArray_t dst_array, struct cudaPos dst_pos, struct cudaPitchedPtr dst,
			   struct cudaExtent extent, CUDA_MEMCPY3D *to)
{
	size_t unit = src_array ? element_bytes(src_array) : dst_array ? element_bytes(dst_array) : 1;

	if (!unit || !!src_array == !!src.ptr || !!dst_array == !!dst.ptr)
		return cudaErrorInvalidValue;
	*to = (CUDA_MEMCPY3D){
		.srcXInBytes = src_pos.x * (src_array ? unit : 1),
		.srcY = src_pos.y,
		.srcZ = src_pos.z,
		.srcMemoryType = side(src_array),
		.srcDevice = (CUdeviceptr)src.ptr,
		.srcArray = (CUarray)src_array,
		.srcPitch = src.pitch,
		.srcHeight = src.ysize,
		.dstXInBytes = dst_pos.x * (dst_array ? unit : 1),
		.dstY = dst_pos.y,
		.dstZ = dst_pos.z,
		.dstMemoryType = side(dst_array),
		.dstDevice = (CUdeviceptr)dst.ptr,
		.dstArray = (CUarray)dst_array,
		.dstPitch = dst.pitch,
		.dstHeight = dst.ysize,
		.WidthInBytes = extent.width * unit,
		.Height = extent.height,
		.Depth = extent.depth,
	};
	return cudaSuccess;
}

cudaError_t sim_runtime_copy(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *to)
{
	cudaError_t e = sim_runtime_context();

	if (e || !p || (unsigned)p->kind > cudaMemcpyDefault)
		return e ? e : p ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue;
	return convert(p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent, to);
}

void sim_runtime_copy_back(const CUDA_MEMCPY3D *from, struct cudaMemcpy3DParms *to)
{
	size_t unit = from->srcArray   ? element_bytes((cudaArray_t)from->srcArray)
		      : from->dstArray ? element_bytes((cudaArray_t)from->dstArray)
				       : 1;

	unit = unit ? unit : 1;
	memset(to, 0, sizeof(*to));
	to->srcArray = (cudaArray_t)from->srcArray;
	to->srcPos =
		(struct cudaPos){ from->srcXInBytes / (from->srcArray ? unit : 1), from->srcY, from->srcZ };
	to->srcPtr = (struct cudaPitchedPtr){ (void *)from->srcDevice, from->srcPitch, from->srcPitch,
					      from->srcHeight };
	to->dstArray = (cudaArray_t)from->dstArray;
	to->dstPos =
		(struct cudaPos){ from->dstXInBytes / (from->dstArray ? unit : 1), from->dstY, from->dstZ };
	to->dstPtr = (struct cudaPitchedPtr){ (void *)from->dstDevice, from->dstPitch, from->dstPitch,
					      from->dstHeight };
	to->extent = (struct cudaExtent){ from->WidthInBytes / unit, from->Height, from->Depth };
	to->kind = cudaMemcpyDefault;
}

CUDA_MEMCPY3D sim_runtime_copy_linear(void *dst, const void *src, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = (CUdeviceptr)src,
		.srcPitch = bytes,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = (CUdeviceptr)dst,
		.dstPitch = bytes,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	CUDA_MEMCPY3D c;

	return RUNTIME_AFTER(sim_runtime_copy(p, &c), cuMemcpy3D_v2(&c));
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
	CUDA_MEMCPY3D c;

	return RUNTIME_AFTER(sim_runtime_copy(p, &c), cuMemcpy3DAsync_v2(&c, stream));
}

/* Between devices: addresses and arrays say which. */
static cudaError_t peer(const struct cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D *to)
{
	cudaError_t e = sim_runtime_context();

	if (e || !p)
		return e ? e : cudaErrorInvalidValue;
	return convert(p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent, to);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
	CUDA_MEMCPY3D c;

	return RUNTIME_AFTER(peer(p, &c), cuMemcpy3D_v2(&c));
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
	CUDA_MEMCPY3D c;

	return RUNTIME_AFTER(peer(p, &c), cuMemcpy3DAsync_v2(&c, stream));
}

/* ---- rows to and from arrays; offsets and widths are bytes here ------------------------------ */

static CUDA_MEMCPY3D to_array(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
			      size_t width, size_t height)
{
	CUDA_MEMCPY3D c = sim_runtime_copy_linear(NULL, src, width);

	c.srcPitch = pitch;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = (CUarray)dst;
	c.dstXInBytes = x;
	c.dstY = y;
	c.Height = height;
	return c;
}

static CUDA_MEMCPY3D from_array(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
				size_t width, size_t height)
{
	CUDA_MEMCPY3D c = sim_runtime_copy_linear(dst, NULL, width);

	c.dstPitch = pitch;
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = (CUarray)(uintptr_t)src;
	c.srcXInBytes = x;
	c.srcY = y;
	c.Height = height;
	return c;
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
				size_t width, size_t height, enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D c = to_array(dst, x, y, src, pitch, width, height);

	(void)kind;
	return RUNTIME(cuMemcpy3D_v2(&c));
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
				     size_t width, size_t height, enum cudaMemcpyKind kind,
				     cudaStream_t stream)
{
	const CUDA_MEMCPY3D c = to_array(dst, x, y, src, pitch, width, height);

	(void)kind;
	return RUNTIME(cuMemcpy3DAsync_v2(&c, stream));
}

cudaError_t cudaMemcpy2DFromArray(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
				  size_t width, size_t height, enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D c = from_array(dst, pitch, src, x, y, width, height);

	(void)kind;
	return RUNTIME(cuMemcpy3D_v2(&c));
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
				       size_t width, size_t height, enum cudaMemcpyKind kind,
				       cudaStream_t stream)
{
	const CUDA_MEMCPY3D c = from_array(dst, pitch, src, x, y, width, height);

	(void)kind;
	return RUNTIME(cuMemcpy3DAsync_v2(&c, stream));
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t dst_x, size_t dst_y, cudaArray_const_t src,
				     size_t src_x, size_t src_y, size_t width, size_t height,
				     enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D c = to_array(dst, dst_x, dst_y, NULL, 0, width, height);
	const CUDA_MEMCPY3D from = from_array(NULL, 0, src, src_x, src_y, width, height);

	(void)kind;
	c.srcMemoryType = from.srcMemoryType;
	c.srcArray = from.srcArray;
	c.srcXInBytes = src_x;
	c.srcY = src_y;
	return RUNTIME(cuMemcpy3D_v2(&c));
}

/* ---- many copies ----------------------------------------------------------------------------- */

/* CUDA 12's NAME has one parameter more, between the last two: refused there, nothing is misread. */
static cudaError_t refuse(const char *name)
{
	sim_refuse(name, false);
	return sim_runtime_error(cudaErrorNotSupported);
}

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
				 size_t count, struct cudaMemcpyAttributes *attributes, size_t *first,
				 size_t nr_attributes, cudaStream_t stream)
{
	if (sim_runtime_is_twelve())
		return refuse("cudaMemcpyBatchAsync");
	return RUNTIME(cuMemcpyBatchAsync_v2((CUdeviceptr *)(uintptr_t)dsts, (CUdeviceptr *)(uintptr_t)srcs,
					     (size_t *)(uintptr_t)sizes, count,
					     (CUmemcpyAttributes *)attributes, first, nr_attributes, stream));
}

cudaError_t cudaMemcpy3DBatchAsync(size_t count, struct cudaMemcpy3DBatchOp *operations,
				   unsigned long long flags, cudaStream_t stream)
{
	if (sim_runtime_is_twelve())
		return refuse("cudaMemcpy3DBatchAsync");
	return RUNTIME(cuMemcpy3DBatchAsync_v2(count, (CUDA_MEMCPY3D_BATCH_OP *)operations, flags, stream));
}

/* ---- memset ---------------------------------------------------------------------------------- */

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
			      cudaStream_t stream)
{
	cudaError_t e = sim_runtime_context();

	for (size_t z = 0; z < extent.depth && !e; z++)
		e = RUNTIME(cuMemsetD2D8Async((CUdeviceptr)p.ptr + z * p.pitch * p.ysize, p.pitch,
					      (unsigned char)value, extent.width, extent.height, stream));
	return sim_runtime_error(e);
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
	return cudaMemset3DAsync(p, value, extent, NULL);
}
