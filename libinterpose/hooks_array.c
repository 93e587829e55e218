/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's calls for arrays and mipmapped arrays. What one takes the driver is asked for; it
 * promises an answer only for arrays that have no memory of their own, and then the size is computed from the
 * shape.
 */
#include "hooks_array.h"
#include "hooks_driver.h"
#include "samples.h"

/* Bytes of an element, of the formats that are so many numbers of a size; 0 for packed and compressed ones.
 */
static uint64_t element_bytes(CUarray_format format, unsigned channels)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return channels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2 * (uint64_t)channels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4 * (uint64_t)channels;
	default:
		return 0;
	}
}

static uint64_t at_least_one(uint64_t n)
{
	return n ? n : 1;
}

/* Of all levels: each has half the width, height and depth of the one before; layers stay as many. */
static uint64_t elements(const struct array_shape *s)
{
	uint64_t width = s->width, height = at_least_one(s->height), depth = at_least_one(s->depth), sum = 0;

	for (unsigned i = 0; i < s->levels; i++) {
		sum += width * height * depth;
		if (width == 1 && height == 1 && (s->layered || depth == 1))
			break;
		width = at_least_one(width / 2);
		height = at_least_one(height / 2);
		depth = s->layered ? depth : at_least_one(depth / 2);
	}
	return sum;
}

void ip_array_took(uint16_t function, int error, uint64_t array, const struct array_shape *shape,
		   uint64_t told_bytes)
{
	uint16_t flags = (uint16_t)(TFMT_SPACE_ARRAY | (told_bytes ? 0 : TFMT_FLAG_ESTIMATED));
	uint64_t bytes = told_bytes ? told_bytes : elements(shape) * shape->element_bytes;

	ip_driver_took((struct tfmt_record){ .kind = TFMT_DRIVER_ALLOC,
					     .flags = flags,
					     .function = function,
					     .device = IP_CURRENT_DEVICE,
					     .address = array,
					     .size = shape->mapped_later ? 0 : bytes },
		       error);
}

static struct array_shape shape_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	return (struct array_shape){
		.width = d->Width,
		.height = d->Height,
		.depth = d->Depth,
		.levels = levels,
		.element_bytes = element_bytes(d->Format, d->NumChannels),
		.layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP),
		.mapped_later = d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING),
	};
}

/* What the driver says an array or mipmapped array takes, 0 if it does not. */
static uint64_t ask(bool mipmapped, void *array)
{
	__typeof__(&cuArrayGetMemoryRequirements) get = ASK(cuArrayGetMemoryRequirements);
	__typeof__(&cuMipmappedArrayGetMemoryRequirements) get_levels =
		ASK(cuMipmappedArrayGetMemoryRequirements);
	CUDA_ARRAY_MEMORY_REQUIREMENTS need = { 0 };
	unsigned device = ip_driver_device();

	if (device == TFMT_DEVICE_NONE || ip_captures_forbid_questions())
		return 0;
	if (mipmapped)
		return get_levels && !get_levels(&need, array, (CUdevice)device) ? need.size : 0;
	return get && !get(&need, array, (CUdevice)device) ? need.size : 0;
}

static void took(uint16_t function, CUresult result, void **out, const struct array_shape *shape,
		 bool mipmapped)
{
	int saved = errno;

	ip_array_took(function, (int)result, result ? 0 : (uintptr_t)*out, shape,
		      result ? 0 : ask(mipmapped, *out));
	errno = saved;
}

#define ARRAY(name, params, args, shape, mipmapped)                                                          \
	IP_EXPORT CUresult CUDAAPI name params;                                                              \
	IP_EXPORT CUresult CUDAAPI name params                                                               \
	{                                                                                                    \
		struct ip_taken outer = ip_enter();                                                          \
		__typeof__(&name) real = REAL(name);                                                         \
		CUresult result = real ? real args : NO_DRIVER;                                              \
                                                                                                             \
		ip_reached();                                                                                \
		if (!result || result == IP_OUT_OF_MEMORY) {                                                 \
			const struct array_shape s = shape;                                                  \
                                                                                                             \
			took(FN_##name, result, (void **)out, &s, mipmapped);                                \
		}                                                                                            \
		ip_leave(outer);                                                                             \
		return result;                                                                               \
	}

#define SHAPE_3D(...) shape_of(&(const CUDA_ARRAY3D_DESCRIPTOR){ __VA_ARGS__ }, 1)

ARRAY(cuArrayCreate_v2, (CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d), (out, d),
      SHAPE_3D(d->Width, d->Height, 0, d->Format, d->NumChannels, 0), false)
ARRAY(cuArrayCreate, (CUarray *out, const CUDA_ARRAY_DESCRIPTOR_v1 *d), (out, d),
      SHAPE_3D(d->Width, d->Height, 0, d->Format, d->NumChannels, 0), false)
ARRAY(cuArray3DCreate_v2, (CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d), (out, d), shape_of(d, 1), false)
ARRAY(cuArray3DCreate, (CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d), (out, d),
      SHAPE_3D(d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags), false)
ARRAY(cuMipmappedArrayCreate, (CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels),
      (out, d, levels), shape_of(d, levels), true)

FREE(cuArrayDestroy, TFMT_SPACE_ARRAY, (CUarray array), (array), (uintptr_t)array)
FREE(cuMipmappedArrayDestroy, TFMT_SPACE_ARRAY, (CUmipmappedArray array), (array), (uintptr_t)array)
