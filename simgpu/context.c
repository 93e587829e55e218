/* SPDX-License-Identifier: MIT */
/* Contexts: one primary context a device, others that programs create, and each thread's stack of them. */
#include <stdlib.h>

#include "simgpu/callback.h"
#include "simgpu/capture.h"
#include "simgpu/memory_model.h"
#include "simgpu/taken.h"

enum { CONTEXT_MAGIC = 0x43545831, STACK_DEPTH = 64 };

static struct sim_context primary[SIM_MAX_DEVICES];
static unsigned long long last_id;
/* A device's context memory is taken once, however many contexts there are: others share the code. */
static bool is_charged[SIM_MAX_DEVICES];

static __thread struct sim_context *stack[STACK_DEPTH];
static __thread int depth;		/* stack[depth - 1] is current */

struct sim_context *sim_context_primary(int device)
{
	struct sim_context *ctx = &primary[device];

	ctx->magic = CONTEXT_MAGIC;
	ctx->device = device;
	ctx->primary = true;
	return ctx;
}

static bool valid(const struct sim_context *ctx)
{
	return ctx && ctx->magic == CONTEXT_MAGIC;
}

struct sim_context *sim_context_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

int sim_device(void)
{
	struct sim_context *ctx = sim_context_current();

	return ctx ? ctx->device : 0;
}

/* Flagged first: sim_charge() wants a context and comes back here. False where not even a context fits. */
static bool charge(int dev)
{
	uint64_t context;

	if (is_charged[dev])
		return true;
	is_charged[dev] = true;
	context = sim_take_locked(dev, "context", sim_model()->context_bytes);
	is_charged[dev] = context && sim_take_locked(dev, "code", sim_model()->code_bytes);
	if (!is_charged[dev])
		sim_give_locked(context);
	return is_charged[dev];
}

bool sim_context_touch(int dev)
{
	struct sim_context *ctx = sim_context_primary(dev);

	if (!charge(dev)) {
		ctx->active = false;
		return false;
	}
	if (!ctx->active) {
		ctx->active = true;
		ctx->id = ++last_id;
		sim_tell_created(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, ctx, NULL);
	}
	return true;
}

bool sim_context_active(int dev)
{
	return primary[dev].active;
}

CUresult sim_context_need(int *device)
{
	struct sim_context *ctx = sim_context_current();

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = ctx->device;
	return CUDA_SUCCESS;
}

static void set_current(struct sim_context *ctx)
{
	if (depth)
		stack[depth - 1] = ctx;
	else if (ctx)
		stack[depth++] = ctx;
	if (depth == 1 && !ctx)
		depth = 0;
}

/* ---- primary contexts ------------------------------------------------------------------------ */

static CUresult check_device(CUdevice dev)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	return dev >= 0 && dev < sim_nr_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult ret = check_device(dev);

	if (ret || !pctx)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_context_touch(dev)) {
		primary[dev].refs++;
		*pctx = (CUcontext)&primary[dev];
	} else {
		ret = CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock();
	return ret;
}

/*
 * The real driver destroys the context with the last reference. A simulated one stays: its memory is the
 * program's exit away from being given back, and the runtime half never lets go of its reference either.
 */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult ret = check_device(dev);

	if (ret)
		return ret;
	sim_lock();
	if (primary[dev].refs)
		primary[dev].refs--;
	else
		ret = CUDA_ERROR_INVALID_CONTEXT;
	sim_unlock();
	return ret;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult ret = check_device(dev);

	if (ret || !flags || !active)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	*flags = primary[dev].flags;
	*active = primary[dev].active;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult ret = check_device(dev);

	if (!ret)
		sim_context_primary(dev)->flags = flags;
	return ret;
}

/* As documented: the context goes, with all that was allocated in it; the next call that needs one makes it
 * anew. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult ret = check_device(dev);

	if (ret)
		return ret;
	if (primary[dev].active)
		sim_tell_destroying(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, &primary[dev], NULL);
	sim_lock();
	sim_memory_reset(dev, NULL);
	sim_taken_reset(dev);
	is_charged[dev] = false;
	primary[dev].active = false;
	primary[dev].peers = 0;
	sim_unlock();
	return CUDA_SUCCESS;
}

/* ---- contexts that programs create ----------------------------------------------------------- */

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	CUresult ret = check_device(dev);
	struct sim_context *ctx;

	if (ret || !pctx)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx = sim_zalloc(sizeof(*ctx));
	ctx->magic = CONTEXT_MAGIC;
	ctx->device = dev;
	ctx->flags = flags;
	ctx->active = true;
	sim_lock();
	ctx->id = ++last_id;
	if (!charge(dev))
		ret = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	if (ret) {
		free(ctx);
		return ret;
	}
	stack[depth++] = ctx;
	*pctx = (CUcontext)ctx;
	sim_tell_created(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, ctx, NULL);
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int nr, unsigned int flags,
			CUdevice dev)
{
	(void)params;
	(void)nr;
	return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	(void)params;
	return create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
	struct sim_context *ctx = (struct sim_context *)handle;

	if (!valid(ctx) || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_tell_destroying(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, ctx, NULL);
	if (sim_context_current() == ctx)
		depth--;
	sim_lock();
	sim_memory_reset(ctx->device, ctx);
	sim_unlock();
	ctx->magic = 0;
	free(ctx);
	return CUDA_SUCCESS;
}

/* Flagged primary: what is allocated in it belongs to the primary context, and cuCtxDestroy() does not end it. */
struct sim_context *sim_context_green(int device, struct sim_green *green)
{
	struct sim_context *ctx = sim_zalloc(sizeof(*ctx));

	*ctx = (struct sim_context){
		.magic = CONTEXT_MAGIC, .device = device, .primary = true, .active = true, .green = green
	};
	sim_lock();
	ctx->id = ++last_id;
	sim_unlock();
	return ctx;
}

void sim_context_green_end(struct sim_context *ctx)
{
	if (sim_context_current() == ctx)
		depth--;
	ctx->magic = 0; /* not freed: streams and stacks of other threads may lead to it */
}

/* ---- limits: kept, and without an effect: what they size belongs to kernels ---------------------- */

static size_t limits[SIM_MAX_DEVICES][CU_LIMIT_MAX];
static bool has_limit[SIM_MAX_DEVICES][CU_LIMIT_MAX];

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (ret || (unsigned)limit >= CU_LIMIT_MAX)
		return ret ? ret : CUDA_ERROR_UNSUPPORTED_LIMIT;
	limits[dev][limit] = value;
	has_limit[dev][limit] = true;
	return CUDA_SUCCESS;
}

/* Before they are set: 1 KiB of stack, as kernels have without a need of their own; the rest is not known. */
CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (ret || !value)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)limit >= CU_LIMIT_MAX || (!has_limit[dev][limit] && limit != CU_LIMIT_STACK_SIZE))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = has_limit[dev][limit] ? limits[dev][limit] : 1024;
	return CUDA_SUCCESS;
}

/* ---- the thread's stack ---------------------------------------------------------------------- */

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)sim_context_current();
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (handle && !valid((struct sim_context *)handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	set_current((struct sim_context *)handle);
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!valid((struct sim_context *)handle) || depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = (struct sim_context *)handle;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (pctx)
		*pctx = (CUcontext)stack[depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (!ret)
		*device = dev;
	return ret;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (!ret)
		*flags = sim_context_current()->flags;
	return ret;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	struct sim_context *ctx = handle ? (struct sim_context *)handle : sim_context_current();

	if (!valid(ctx) || !id)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*id = ctx->id;
	return CUDA_SUCCESS;
}

/* 3020 is the first version with 64-bit device pointers: what every context since then answers. */
CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct sim_context *ctx = handle ? (struct sim_context *)handle : sim_context_current();

	if (!valid(ctx) || !version)
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = 3020;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (ret)
		return ret;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (ret)
		return ret;
	if (sim_capture_spoil_context(sim_context_current()))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_synchronise();
	sim_tell_synchronised(CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, NULL);
	return CUDA_SUCCESS;
}

/* The CUDA 13 forms, which name a context: NULL is the current one. */
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
	if (!handle)
		return cuCtxGetDevice(device);
	if (!valid((struct sim_context *)handle) || !device)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = ((struct sim_context *)handle)->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
	if (!handle)
		return cuCtxSynchronize();
	if (!valid((struct sim_context *)handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_capture_spoil_context((struct sim_context *)handle))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_synchronise();
	return CUDA_SUCCESS;
}

/* Peers: every pair of simulated devices reaches each other, as over NVLink. */
CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	CUresult ret = check_device(dev) ? check_device(dev) : check_device(peer);

	if (!ret)
		*can = dev != peer;
	return ret;
}

/* The current context, when HANDLE is a context of another device; *BIT is that device's in its peers. */
static struct sim_context *peer_of(CUcontext handle, uint64_t *bit)
{
	struct sim_context *ctx = sim_context_current(), *peer = (struct sim_context *)handle;

	if (!ctx || !valid(peer) || peer->device == ctx->device)
		return NULL;
	*bit = 1ULL << peer->device;
	return ctx;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	uint64_t bit;
	struct sim_context *ctx = peer_of(peer, &bit);

	if (!ctx || flags)
		return ctx ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
	if (__atomic_fetch_or(&ctx->peers, bit, __ATOMIC_RELAXED) & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	uint64_t bit;
	struct sim_context *ctx = peer_of(peer, &bit);

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!(__atomic_fetch_and(&ctx->peers, ~bit, __ATOMIC_RELAXED) & bit))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	return CUDA_SUCCESS;
}
