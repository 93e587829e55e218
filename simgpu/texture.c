/* SPDX-License-Identifier: MIT */
/* Texture and surface objects: descriptions of memory that kernels would read through. They take no memory. */
#include <stdlib.h>

#include "simgpu/internal.h"

struct object {
	struct object *next;
	bool is_surface;
	bool has_view;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
};

static struct object *objects; /* under sim_lock() */

/* Where OBJECT is linked in, or NULL when it is none. Locked. */
static struct object **link_of(unsigned long long object, bool is_surface)
{
	for (struct object **link = &objects; *link; link = &(*link)->next)
		if ((uintptr_t)*link == object && (*link)->is_surface == is_surface)
			return link;
	return NULL;
}

static bool is_array(CUarray array)
{
	size_t pitch, height, bytes;
	char *memory;

	return !sim_array_layout(array, &memory, &pitch, &height, &bytes);
}

static bool valid(const CUDA_RESOURCE_DESC *r, bool is_surface)
{
	CUarray level;

	if (r->flags)
		return false;
	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return is_array(r->res.array.hArray);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return !is_surface && !cuMipmappedArrayGetLevel(&level, r->res.mipmap.hMipmappedArray, 0);
	case CU_RESOURCE_TYPE_LINEAR:
		return !is_surface && r->res.linear.devPtr && r->res.linear.sizeInBytes;
	case CU_RESOURCE_TYPE_PITCH2D:
		return !is_surface && r->res.pitch2D.devPtr && r->res.pitch2D.width && r->res.pitch2D.height;
	default:
		return false;
	}
}

static CUresult create(unsigned long long *out, const CUDA_RESOURCE_DESC *resource,
		       const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view, bool is_surface)
{
	int device;
	CUresult ret = sim_context_need(&device);
	struct object *o;

	if (ret)
		return ret;
	if (!out || !resource || !valid(resource, is_surface))
		return CUDA_ERROR_INVALID_VALUE;
	o = sim_zalloc(sizeof(*o));
	o->is_surface = is_surface;
	o->resource = *resource;
	if (texture)
		o->texture = *texture;
	o->has_view = view;
	if (view)
		o->view = *view;
	sim_lock();
	o->next = objects;
	objects = o;
	sim_unlock();
	*out = (uintptr_t)o;
	return CUDA_SUCCESS;
}

static CUresult destroy(unsigned long long object, bool is_surface)
{
	struct object **link, *o = NULL;

	sim_lock();
	link = link_of(object, is_surface);
	if (link) {
		o = *link;
		*link = o->next;
	}
	sim_unlock();
	free(o);
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A copy of what OBJECT was made of; false when it is none. */
static bool read_object(unsigned long long object, bool is_surface, struct object *out)
{
	struct object **link;

	sim_lock();
	link = link_of(object, is_surface);
	if (link)
		*out = **link;
	sim_unlock();
	return link;
}

CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
			   const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
	return texture ? create(object, resource, texture, view, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectDestroy(CUtexObject object)
{
	return destroy(object, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject object)
{
	struct object o;

	if (!out || !read_object(object, false, &o))
		return CUDA_ERROR_INVALID_VALUE;
	*out = o.resource;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject object)
{
	struct object o;

	if (!out || !read_object(object, false, &o))
		return CUDA_ERROR_INVALID_VALUE;
	*out = o.texture;
	return CUDA_SUCCESS;
}

/* As documented: an error if none was given. */
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject object)
{
	struct object o;

	if (!out || !read_object(object, false, &o) || !o.has_view)
		return CUDA_ERROR_INVALID_VALUE;
	*out = o.view;
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *resource)
{
	return create(object, resource, NULL, NULL, true);
}

CUresult cuSurfObjectDestroy(CUsurfObject object)
{
	return destroy(object, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject object)
{
	struct object o;

	if (!out || !read_object(object, true, &o))
		return CUDA_ERROR_INVALID_VALUE;
	*out = o.resource;
	return CUDA_SUCCESS;
}
