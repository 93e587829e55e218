/* SPDX-License-Identifier: MIT */
/*
 * Texture and surface objects of the runtime half. The driver checks and counts them; their descriptions,
 * which the runtime has in other structures, are kept here.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu/runtime.h"

struct description {
	struct description *next;
	unsigned long long object;
	struct cudaResourceDesc resource;
	struct cudaTextureDesc texture;
	struct cudaResourceViewDesc view;
	bool has_view;
};

static struct description *descriptions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct description **link_of(unsigned long long object)
{
	struct description **link = &descriptions;

	while (*link && (*link)->object != object)
		link = &(*link)->next;
	return link;
}

static void keep(const struct description *d)
{
	struct description *kept = sim_alloc(sizeof(*kept));

	*kept = *d;
	pthread_mutex_lock(&lock);
	kept->next = descriptions;
	descriptions = kept;
	pthread_mutex_unlock(&lock);
}

static void forget(unsigned long long object)
{
	struct description **link, *d;

	pthread_mutex_lock(&lock);
	link = link_of(object);
	d = *link;
	if (d)
		*link = d->next;
	pthread_mutex_unlock(&lock);
	free(d);
}

static bool find(unsigned long long object, struct description *out)
{
	struct description *d;

	pthread_mutex_lock(&lock);
	d = *link_of(object);
	if (d)
		*out = *d;
	pthread_mutex_unlock(&lock);
	return d;
}

/* What the driver checks of a resource: where it is, and how large. */
static CUDA_RESOURCE_DESC resource(const struct cudaResourceDesc *from)
{
	CUDA_RESOURCE_DESC to = { .resType = (CUresourcetype)from->resType, .flags = from->flags };

	switch (from->resType) {
	case cudaResourceTypeArray:
		to.res.array.hArray = (CUarray)from->res.array.array;
		break;
	case cudaResourceTypeMipmappedArray:
		to.res.mipmap.hMipmappedArray = (CUmipmappedArray)from->res.mipmap.mipmap;
		break;
	case cudaResourceTypeLinear:
		to.res.linear.devPtr = (CUdeviceptr)from->res.linear.devPtr;
		to.res.linear.sizeInBytes = from->res.linear.sizeInBytes;
		break;
	case cudaResourceTypePitch2D:
		to.res.pitch2D.devPtr = (CUdeviceptr)from->res.pitch2D.devPtr;
		to.res.pitch2D.width = from->res.pitch2D.width;
		to.res.pitch2D.height = from->res.pitch2D.height;
		to.res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
		break;
	default:
		break;
	}
	return to;
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const struct cudaResourceDesc *from,
				    const struct cudaTextureDesc *texture,
				    const struct cudaResourceViewDesc *view)
{
	struct description d;
	CUDA_TEXTURE_DESC any = { 0 };
	CUDA_RESOURCE_DESC to;
	cudaError_t e;

	if (!object || !from || !texture)
		return sim_runtime_error(cudaErrorInvalidValue);
	to = resource(from);
	e = RUNTIME(cuTexObjectCreate((CUtexObject *)object, &to, &any, NULL));
	if (e)
		return e;
	d = (struct description){ .object = *object, .resource = *from, .texture = *texture, .has_view = view };
	if (view)
		d.view = *view;
	keep(&d);
	return cudaSuccess;
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object)
{
	cudaError_t e = RUNTIME(cuTexObjectDestroy(object));

	if (!e)
		forget(object);
	return e;
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *out, cudaTextureObject_t object)
{
	struct description d;

	if (!out || !find(object, &d))
		return sim_runtime_error(cudaErrorInvalidValue);
	*out = d.resource;
	return cudaSuccess;
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *out, cudaTextureObject_t object)
{
	struct description d;

	if (!out || !find(object, &d))
		return sim_runtime_error(cudaErrorInvalidValue);
	*out = d.texture;
	return cudaSuccess;
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *out, cudaTextureObject_t object)
{
	struct description d;

	if (!out || !find(object, &d) || !d.has_view)
		return sim_runtime_error(cudaErrorInvalidValue);
	*out = d.view;
	return cudaSuccess;
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const struct cudaResourceDesc *from)
{
	CUDA_RESOURCE_DESC to;
	cudaError_t e;

	if (!object || !from)
		return sim_runtime_error(cudaErrorInvalidValue);
	to = resource(from);
	e = RUNTIME(cuSurfObjectCreate((CUsurfObject *)object, &to));
	if (!e)
		keep(&(struct description){ .object = *object, .resource = *from });
	return e;
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object)
{
	cudaError_t e = RUNTIME(cuSurfObjectDestroy(object));

	if (!e)
		forget(object);
	return e;
}

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *out, cudaSurfaceObject_t object)
{
	return cudaGetTextureObjectResourceDesc(out, object);
}
