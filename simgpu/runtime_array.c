/* SPDX-License-Identifier: MIT */
/* Arrays of the runtime half. */
#include "simgpu/runtime.h"

/* The driver's format of numbers of BITS bits; 0 if there is none. */
static CUarray_format format_of(enum cudaChannelFormatKind kind, int bits)
{
	switch (kind) {
	case cudaChannelFormatKindUnsigned:
		return bits == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
		       : bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
		       : bits == 32 ? CU_AD_FORMAT_UNSIGNED_INT32
				    : 0;
	case cudaChannelFormatKindSigned:
		return bits == 8    ? CU_AD_FORMAT_SIGNED_INT8
		       : bits == 16 ? CU_AD_FORMAT_SIGNED_INT16
		       : bits == 32 ? CU_AD_FORMAT_SIGNED_INT32
				    : 0;
	case cudaChannelFormatKindFloat:
		return bits == 16 ? CU_AD_FORMAT_HALF : bits == 32 ? CU_AD_FORMAT_FLOAT : 0;
	default:
		return 0;
	}
}

static CUDA_ARRAY3D_DESCRIPTOR shape(const struct cudaChannelFormatDesc *d, struct cudaExtent extent,
				     unsigned flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = extent.width,
		.Height = extent.height,
		.Depth = extent.depth,
		.Format = d ? format_of(d->f, d->x) : 0,
		.Flags = flags,
		.NumChannels = d ? (unsigned)(!!d->x + !!d->y + !!d->z + !!d->w) : 0,
	};
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
			      struct cudaExtent extent, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = shape(desc, extent, flags);

	return RUNTIME(cuArray3DCreate_v2((CUarray *)array, &d));
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
			    size_t height, unsigned int flags)
{
	return cudaMalloc3DArray(array, desc, (struct cudaExtent){ width, height, 0 }, flags);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc,
				     struct cudaExtent extent, unsigned int levels, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d = shape(desc, extent, flags);

	return RUNTIME(cuMipmappedArrayCreate((CUmipmappedArray *)array, &d, levels));
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
	return array ? RUNTIME(cuArrayDestroy((CUarray)array)) : cudaSuccess;
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
	return array ? RUNTIME(cuMipmappedArrayDestroy((CUmipmappedArray)array)) : cudaSuccess;
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *array, cudaMipmappedArray_const_t whole, unsigned int level)
{
	return RUNTIME(cuMipmappedArrayGetLevel((CUarray *)array, (CUmipmappedArray)(uintptr_t)whole, level));
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind)
{
	return (struct cudaChannelFormatDesc){ x, y, z, w, kind };
}

/* The bits of one number in FORMAT, and of which kind it is. */
static int bits_of(CUarray_format format, enum cudaChannelFormatKind *kind)
{
	bool is_signed = format == CU_AD_FORMAT_SIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT16 ||
			 format == CU_AD_FORMAT_SIGNED_INT32;

	*kind = format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT ? cudaChannelFormatKindFloat
		: is_signed						    ? cudaChannelFormatKindSigned
									    : cudaChannelFormatKindUnsigned;
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16;
	default:
		return 32;
	}
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent, unsigned int *flags,
			     cudaArray_t array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	enum cudaChannelFormatKind kind;
	cudaError_t e = RUNTIME(cuArray3DGetDescriptor_v2(&d, (CUarray)array));
	int bits = e ? 0 : bits_of(d.Format, &kind);

	if (e)
		return e;
	if (desc)
		*desc = (struct cudaChannelFormatDesc){ bits, d.NumChannels > 1 ? bits : 0,
							d.NumChannels > 2 ? bits : 0, d.NumChannels > 2 ? bits : 0,
							kind };
	if (extent)
		*extent = (struct cudaExtent){ d.Width, d.Height, d.Depth };
	if (flags)
		*flags = d.Flags;
	return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
	return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}
