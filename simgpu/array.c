/* SPDX-License-Identifier: MIT */
/*
 * Arrays and mipmapped arrays: shapes with memory of their own. How a real device lays one out is
 * not documented: here it takes the bytes of its elements. Sparse ones, and those that are mapped later, have
 * none.
 */
#include <stdlib.h>
#include <string.h>

#include "simgpu/internal.h"

struct array {
	CUDA_ARRAY3D_DESCRIPTOR shape;
	unsigned levels;    /* 0: not mipmapped */
	CUdeviceptr memory; /* 0: none */
	struct tile *tiles;
	struct array *whole; /* the mipmapped array that this is a level of; NULL: of none */
	CUarray *parts;	     /* of a mipmapped array: its levels, as far as they were asked for */
};

/* What a sparse array shows at a place. */
struct tile {
	struct tile *next;
	CUarraySparseSubresourceType type;
	unsigned char place[sizeof(((CUarrayMapInfo *)0)->subresource)];
	CUmemGenericAllocationHandle handle;
};

static struct sim_blocks arrays; /* a block of one byte for each, at its address */

static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4)
		return 0;
	switch (d->Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return d->NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2 * (size_t)d->NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4 * (size_t)d->NumChannels;
	default:
		return 0;
	}
}

static size_t half(size_t n)
{
	return n > 1 ? n / 2 : 1;
}

static size_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	bool layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	size_t width = d->Width, height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1, sum = 0;

	do {
		sum += width * height * depth * element_bytes(d);
		if (width == 1 && height == 1 && (layered || depth == 1))
			break;
		width = half(width);
		height = half(height);
		depth = layered ? depth : half(depth);
	} while (levels && --levels);
	return sum;
}

static CUresult array_new(void **handle, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	int device;
	CUresult ret = sim_context_need(&device);
	struct sim_block entry = { .kind = SIM_RESERVED, .bytes = 1 };
	CUdeviceptr memory = 0;
	struct array *a;

	if (ret)
		return ret;
	if (!handle || !d || !d->Width || !element_bytes(d) || d->Width > SIM_CAPACITY_MAX ||
	    d->Height > 1u << 20 || d->Depth > 1u << 20)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
		ret = cuMemAlloc_v2(&memory, bytes_of(d, levels));
	if (ret)
		return ret;
	a = sim_zalloc(sizeof(*a));
	a->shape = *d;
	a->levels = levels;
	a->memory = memory;
	entry.start = (uintptr_t)a;
	sim_lock();
	sim_blocks_add(&arrays, &entry);
	sim_unlock();
	*handle = a;
	return CUDA_SUCCESS;
}

/* What HANDLE stands for, or NULL: it was destroyed, or never was an array of this kind. */
static struct array *array_of(void *handle, bool mipmapped)
{
	struct sim_block *found;
	struct array *a = NULL;

	sim_lock();
	found = handle ? sim_blocks_find(&arrays, (uintptr_t)handle) : NULL;
	if (found)
		a = handle;
	sim_unlock();
	return a && !a->levels == !mipmapped ? a : NULL;
}

CUresult sim_array_layout(CUarray handle, char **memory, size_t *pitch, size_t *height, size_t *bytes)
{
	struct array *a = array_of(handle, false);

	if (!a || !a->memory)
		return CUDA_ERROR_INVALID_HANDLE;
	*memory = (char *)a->memory;
	*pitch = a->shape.Width * element_bytes(&a->shape);
	*height = a->shape.Height ? a->shape.Height : 1;
	*bytes = bytes_of(&a->shape, 0);
	return CUDA_SUCCESS;
}

static CUresult array_free(void *handle, bool mipmapped)
{
	struct array *a = array_of(handle, mipmapped);
	struct sim_block entry;

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!a || a->whole)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_lock();
	sim_blocks_remove(&arrays, (uintptr_t)a, &entry);
	for (unsigned i = 0; a->parts && i < a->levels; i++) {
		if (a->parts[i])
			sim_blocks_remove(&arrays, (uintptr_t)a->parts[i], &entry);
		free(a->parts[i]);
	}
	free(a->parts);
	for (struct tile *t = a->tiles, *next; t; t = next) {
		next = t->next;
		sim_physical_put(t->handle);
		free(t);
	}
	sim_unlock();
	if (a->memory)
		cuMemFree_v2(a->memory); /* its context may have gone before it */
	free(a);
	return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return array_new((void **)handle, d, 0);
}

CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { 0 };

	if (d)
		shape = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = d->Width,
						   .Height = d->Height,
						   .Format = d->Format,
						   .NumChannels = d->NumChannels };
	return array_new((void **)handle, d ? &shape : NULL, 0);
}

CUresult cuArrayDestroy(CUarray handle)
{
	return array_free(handle, false);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray handle)
{
	struct array *a = array_of(handle, false);

	if (!a || !d)
		return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*d = a->shape;
	return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray handle)
{
	struct array *a = array_of(handle, false);

	if (!a || !d)
		return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*d = (CUDA_ARRAY_DESCRIPTOR){ a->shape.Width, a->shape.Height, a->shape.Format,
				      a->shape.NumChannels };
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d,
				unsigned int levels)
{
	return levels ? array_new((void **)handle, d, levels) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
	return array_free(handle, true);
}

/* Level number LEVEL of the whole array W: a view of its memory, after that of the levels before. */
static struct array *level_new(struct array *w, unsigned level)
{
	struct sim_block entry = { .kind = SIM_RESERVED, .bytes = 1 };
	bool layered = w->shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	struct array *a = sim_zalloc(sizeof(*a));

	a->shape = w->shape;
	a->whole = w;
	for (unsigned i = 0; i < level; i++) {
		a->shape.Width = half(a->shape.Width);
		a->shape.Height = a->shape.Height ? half(a->shape.Height) : 0;
		a->shape.Depth = a->shape.Depth && !layered ? half(a->shape.Depth) : a->shape.Depth;
	}
	a->memory = w->memory && level ? w->memory + bytes_of(&w->shape, level) : w->memory;
	entry.start = (uintptr_t)a;
	sim_blocks_add(&arrays, &entry);
	return a;
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned int level)
{
	struct array *w = array_of(handle, true);

	if (!w || !out || level >= w->levels)
		return w ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	sim_lock();
	if (!w->parts)
		w->parts = sim_zalloc(w->levels * sizeof(*w->parts));
	if (!w->parts[level])
		w->parts[level] = (CUarray)level_new(w, level);
	*out = w->parts[level];
	sim_unlock();
	return CUDA_SUCCESS;
}

/* As documented: only of arrays that are mapped later. */
static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *need, const struct array *a)
{
	if (!need || !a || !(a->shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	memset(need, 0, sizeof(*need));
	need->size = sim_round_up(bytes_of(&a->shape, a->levels), SIM_GRANULE);
	need->alignment = SIM_GRANULE;
	return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *need, CUarray handle, CUdevice device)
{
	(void)device;
	return requirements(need, array_of(handle, false));
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *need, CUmipmappedArray handle,
					       CUdevice device)
{
	(void)device;
	return requirements(need, array_of(handle, true));
}

/* ---- what sparse arrays show: references to physical memory, and no more ------------------------ */

static struct tile **tile_of(struct array *a, const CUarrayMapInfo *m)
{
	struct tile **link = &a->tiles;

	while (*link && ((*link)->type != m->subresourceType ||
			 memcmp((*link)->place, &m->subresource, sizeof((*link)->place))))
		link = &(*link)->next;
	return link;
}

/* Locked. */
static CUresult map(struct array *a, const CUarrayMapInfo *m)
{
	struct tile **link = tile_of(a, m), *t = *link;

	if (m->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) {
		if (!t)
			return CUDA_ERROR_INVALID_VALUE;
		*link = t->next;
		sim_physical_put(t->handle);
		free(t);
		return CUDA_SUCCESS;
	}
	if (t || !sim_physical_get(m->memHandle.memHandle))
		return CUDA_ERROR_INVALID_VALUE;
	t = sim_zalloc(sizeof(*t));
	t->type = m->subresourceType;
	memcpy(t->place, &m->subresource, sizeof(t->place));
	t->handle = m->memHandle.memHandle;
	t->next = a->tiles;
	a->tiles = t;
	return CUDA_SUCCESS;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	CUresult ret = CUDA_SUCCESS;

	(void)stream;
	if (!list)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; !ret && i < count; i++) {
		bool mipmapped = list[i].resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		struct array *a = array_of(list[i].resource.array, mipmapped);

		if (!a || !(a->shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
			return CUDA_ERROR_INVALID_VALUE;
		sim_lock();
		ret = map(a, &list[i]);
		sim_unlock();
	}
	return ret;
}
