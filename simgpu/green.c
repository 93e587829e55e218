/* SPDX-License-Identifier: MIT */
/*
 * Green contexts: a part of a device's SMs, with streams of its own. Memory is that of the device's primary
 * context, as documented, so it does not depend on them. What of a device they take in the driver is not
 * documented: 0.
 */
#include <string.h>

#include "simgpu/capture.h"

enum { GREEN_MAGIC = 0x47524e43, DESCRIPTION_MAGIC = 0x47524444 };

struct sim_green {
	uint32_t magic;
	CUdevResource sms;
	struct sim_context *context;
	struct sim_green *before; /* of those that were destroyed */
};

/* A CUdevResourceDesc; programs have no way to give it back, so all stay, in a list. */
struct description {
	uint32_t magic;
	int device;
	unsigned sms;
	struct description *before;
};

static struct description *last_description;
static struct sim_green *last_destroyed;

static struct sim_green *green_of(CUgreenCtx handle)
{
	struct sim_green *g = (struct sim_green *)handle;

	return g && g->magic == GREEN_MAGIC ? g : NULL;
}

/* ---- resources ------------------------------------------------------------------------------- */

/* The smallest part of a device and the step from there, as cuda.h lists them by compute capability. */
static void set_sms(CUdevResource *r, int device, unsigned sms)
{
	const int major = sim_profile()->cc_major;

	memset(r, 0, sizeof(*r));
	r->type = sms ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
	r->sm.smCount = sms;
	r->sm.minSmPartitionSize = major >= 9 ? 8 : major == 8 ? 4 : 2;
	r->sm.smCoscheduledAlignment = major >= 9 ? 8 : 2;
	memcpy(r->_internal_padding, &device, sizeof(device));
}

static int device_of(const CUdevResource *r)
{
	int device;

	memcpy(&device, r->_internal_padding, sizeof(device));
	return device;
}

static CUresult device_resource(int device, CUdevResource *r, CUdevResourceType type)
{
	if (!r || type != CU_DEV_RESOURCE_TYPE_SM)
		return r ? CUDA_ERROR_INVALID_RESOURCE_TYPE : CUDA_ERROR_INVALID_VALUE;
	set_sms(r, device, (unsigned)sim_profile()->sms);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *r, CUdevResourceType type)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device < 0 || device >= sim_nr_devices())
		return CUDA_ERROR_INVALID_DEVICE;
	return device_resource(device, r, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *r, CUdevResourceType type)
{
	struct sim_green *g = green_of(handle);

	if (!g || !r)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*r = g->sms;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *r, CUdevResourceType type)
{
	struct sim_context *ctx = handle ? (struct sim_context *)handle : sim_context_current();

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return ctx->green ? cuGreenCtxGetDevResource((CUgreenCtx)ctx->green, r, type)
			  : device_resource(ctx->device, r, type);
}

/* RESULT NULL: only how many groups there would be. */
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nr, const CUdevResource *input,
				     CUdevResource *remaining, unsigned int flags, unsigned int least)
{
	const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
			       CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	unsigned step, groups, each;

	if (!nr || !input || flags & ~known || (result && !*nr))
		return CUDA_ERROR_INVALID_VALUE;
	if (input->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	step = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? 2 : input->sm.smCoscheduledAlignment;
	each = least > input->sm.minSmPartitionSize || step == 2 ? least : input->sm.minSmPartitionSize;
	each = (unsigned)sim_round_up(each ? each : step, step);
	if (each > input->sm.smCount)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	groups = input->sm.smCount / each;
	if (result && groups > *nr)
		groups = *nr;
	for (unsigned i = 0; result && i < groups; i++)
		set_sms(&result[i], device_of(input), each);
	if (remaining)
		set_sms(remaining, device_of(input), input->sm.smCount - groups * each);
	*nr = groups;
	return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *handle, CUdevResource *resources, unsigned int nr)
{
	struct description *d;
	unsigned sms = 0;

	if (!handle || !resources || !nr)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < nr; i++) {
		if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		if (device_of(&resources[i]) != device_of(&resources[0]))
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		sms += resources[i].sm.smCount;
	}
	d = sim_alloc(sizeof(*d));
	*d = (struct description){ DESCRIPTION_MAGIC, device_of(&resources[0]), sms, NULL };
	sim_lock();
	d->before = last_description;
	last_description = d;
	sim_unlock();
	*handle = (CUdevResourceDesc)d;
	return CUDA_SUCCESS;
}

/* ---- contexts -------------------------------------------------------------------------------- */

CUresult cuGreenCtxCreate(CUgreenCtx *handle, CUdevResourceDesc resources, CUdevice device,
			  unsigned int flags)
{
	const struct description *d = (const struct description *)resources;
	struct sim_green *g;
	CUcontext primary;
	CUresult ret;

	if (!handle || !d || d->magic != DESCRIPTION_MAGIC || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (device != d->device)
		return CUDA_ERROR_INVALID_DEVICE;
	ret = cuDevicePrimaryCtxRetain(&primary, device);
	if (ret)
		return ret;
	g = sim_zalloc(sizeof(*g));
	g->magic = GREEN_MAGIC;
	set_sms(&g->sms, device, d->sms);
	g->context = sim_context_green(device, g);
	*handle = (CUgreenCtx)g;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle)
{
	struct sim_green *g = green_of(handle);
	int device;

	if (!g)
		return CUDA_ERROR_INVALID_CONTEXT;
	device = g->context->device;
	sim_context_green_end(g->context);
	g->magic = 0;
	sim_lock(); /* it and its context stay: streams that the program has not destroyed before lead there */
	g->before = last_destroyed;
	last_destroyed = g;
	sim_unlock();
	return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx handle)
{
	struct sim_green *g = green_of(handle);

	if (!g || !ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = (CUcontext)g->context;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long *id)
{
	struct sim_green *g = green_of(handle);

	if (!g || !id)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*id = g->context->id;
	return CUDA_SUCCESS;
}

/* ---- streams and events ---------------------------------------------------------------------- */

/* As documented: streams of green contexts never wait for the legacy default stream. */
CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx handle, unsigned int flags, int priority)
{
	struct sim_green *g = green_of(handle);
	CUcontext before;
	CUresult ret;

	if (!g || !stream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	cuCtxPushCurrent_v2((CUcontext)g->context);
	ret = cuStreamCreateWithPriority(stream, flags, priority);
	cuCtxPopCurrent_v2(&before);
	if (!ret)
		sim_stream_of(*stream)->green = g;
	return ret;
}

/* Of a stream that belongs to none it is NULL. */
CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
	struct sim_stream *s = sim_stream_of(handle);

	if (!s || !green)
		return s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (s->green && !green_of((CUgreenCtx)s->green))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*green = (CUgreenCtx)s->green;
	return CUDA_SUCCESS;
}

/* As documented: a context, or a green context, and NULL for the other. */
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
	CUresult ret = cuStreamGetGreenCtx(handle, green);

	if (ret || !ctx)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	*ctx = NULL;
	return *green ? CUDA_SUCCESS : cuStreamGetCtx(handle, ctx);
}

/* All work of a context is complete when it is issued: an event of it is recorded at once, and never waited
 * for. */
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	(void)ctx;
	return cuEventRecord(event, NULL);
}

CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	(void)ctx;
	return cuStreamWaitEvent(NULL, event, CU_EVENT_WAIT_DEFAULT);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event)
{
	return green_of(handle) ? cuEventRecord(event, NULL) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event)
{
	return green_of(handle) ? cuStreamWaitEvent(NULL, event, CU_EVENT_WAIT_DEFAULT)
				: CUDA_ERROR_INVALID_CONTEXT;
}
