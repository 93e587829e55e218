/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of the driver's start and of its calls for contexts. A context has a number, 0 for the primary one
 * of each device, by which the trace says what ends with it. The runtime gets its primary context past all
 * wrappers: that one also counts as made when something is first allocated in it.
 */
#include <unistd.h>

#include "hooks_driver.h"
#include "samples.h"

#define PRIMARY 0u

IP_EXPORT CUresult CUDAAPI cuInit(unsigned flags)
{
	__typeof__(&cuInit) real = REAL(cuInit);
	CUresult result = real ? real(flags) : NO_DRIVER;
	int saved = errno;

	if (!result)
		ip_prepare();
	errno = saved;
	return result;
}

/* ---- contexts that programs create, green ones among them ------------------------------------------ */

struct created {
	unsigned device;
	uint32_t number;
	bool known;
};

static void context_remember(void *handle, unsigned device, uint32_t number)
{
	struct ip_contexts *c = &ip_recorder->contexts;

	for (unsigned i = 0; i < IP_CONTEXTS_MAX; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&c->handle[i], &none, IP_HANDLE_TAKEN))
			continue;
		c->device[i] = (uint8_t)device;
		c->number[i] = number;
		atomic_store_explicit(&c->handle[i], (uintptr_t)handle, memory_order_release);
		atomic_store_explicit(&c->any, true, memory_order_release);
		return;
	}
}

static struct created context_of(const void *handle)
{
	struct ip_contexts *c = &ip_recorder->contexts;

	for (unsigned i = 0; handle && i < IP_CONTEXTS_MAX; i++)
		if (atomic_load_explicit(&c->handle[i], memory_order_acquire) == (uintptr_t)handle)
			return (struct created){ c->device[i], c->number[i], true };
	return (struct created){ 0 };
}

static void context_forget(void *handle)
{
	struct ip_contexts *c = &ip_recorder->contexts;

	for (unsigned i = 0; handle && i < IP_CONTEXTS_MAX; i++) {
		uintptr_t known = (uintptr_t)handle;

		atomic_compare_exchange_strong(&c->handle[i], &known, 0);
	}
}

uint32_t ip_context_number(void)
{
	__typeof__(&cuCtxGetCurrent) get;
	CUcontext current = NULL;

	if (!atomic_load_explicit(&ip_recorder->contexts.any, memory_order_relaxed))
		return PRIMARY;
	get = ASK(cuCtxGetCurrent);
	return get && !get(&current) ? context_of(current).number : PRIMARY;
}

static struct ip_thread *context_event(uint8_t kind, enum tfmt_object object, uint16_t function,
				       unsigned device, uintptr_t handle, uint64_t size, uint64_t aux)
{
	struct tfmt_record ev = { .kind = kind,
				  .flags = (uint16_t)object,
				  .function = function,
				  .device = (uint8_t)device,
				  .address = handle,
				  .size = size,
				  .aux = aux };

	return kind == TFMT_OBJECT_NEW ? ip_driver_born(ev) : ip_driver_event(ev);
}

static void sample(struct ip_thread *t, unsigned device)
{
	int saved = errno;

	if (t && device < TFMT_NR_DEVICES)
		ip_sample_now(t, device);
	errno = saved;
}

static void created(uint16_t function, CUcontext context, CUdevice device)
{
	uint32_t number = atomic_fetch_add(&ip_recorder->contexts.last, 1) + 1;

	context_remember(context, (unsigned)device, number);
	sample(context_event(TFMT_OBJECT_NEW, TFMT_OBJECT_CONTEXT, function, (unsigned)device,
			     (uintptr_t)context, 0, number),
	       (unsigned)device);
}

WRAP_ON(device, cuCtxCreate_v4, (CUcontext * out, CUctxCreateParams *params, unsigned flags, CUdevice device),
	(out, params, flags, device), created(FN_cuCtxCreate_v4, *out, device))
WRAP_ON(device, cuCtxCreate_v3,
	(CUcontext * out, CUexecAffinityParam *params, int nr, unsigned flags, CUdevice device),
	(out, params, nr, flags, device), created(FN_cuCtxCreate_v3, *out, device))
WRAP_ON(device, cuCtxCreate_v2, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device),
	created(FN_cuCtxCreate_v2, *out, device))
WRAP_ON(device, cuCtxCreate, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device),
	created(FN_cuCtxCreate, *out, device))

struct ip_capture_home ip_stream_home(CUstream stream)
{
	__typeof__(&cuStreamGetCtx) get_of = ASK(cuStreamGetCtx);
	__typeof__(&cuCtxGetCurrent) get = ASK(cuCtxGetCurrent);
	CUcontext context = NULL, current = NULL;
	struct ip_capture_home home = { 0, TFMT_DEVICE_NONE };

	if (get && get(&current))
		current = NULL;
	if (!get_of || get_of(stream, &context))
		context = current;
	if (context_of(context).known)
		home.context = (uintptr_t)context;
	if (context == current)
		home.device = ip_driver_device();
	return home;
}

/* While what is about to go can still be seen. */
static void sample_before(unsigned device)
{
	int saved = errno;
	struct ip_thread *t =
		ip_state() == IP_RECORDING && device < TFMT_NR_DEVICES ? ip_event_thread() : NULL;

	sample(t, device);
	errno = saved;
}

/* A context is gone, and what was allocated in it. */
static void ended(uint16_t function, unsigned device, uintptr_t handle, uint32_t number)
{
	ip_tls.reset_seen = true;
	ip_driver_event((struct tfmt_record){
		.kind = TFMT_RESET, .function = function, .device = (uint8_t)device, .aux = number });
	context_event(TFMT_OBJECT_GONE, TFMT_OBJECT_CONTEXT, function, device, handle, 0, number);
}

/*
 * The context is forgotten before: another thread can be given the same handle before the call returns. What
 * is recorded after says by its number which context is meant.
 */
#define CONTEXT_DESTROY(name)                                                                                \
	IP_EXPORT CUresult CUDAAPI name(CUcontext context)                                                   \
	{                                                                                                    \
		struct created c = (ip_reached(), context_of(context));                                      \
		__typeof__(&name) real;                                                                      \
		CUresult result;                                                                             \
		uint64_t held;                                                                               \
                                                                                                             \
		sample_before(c.known ? c.device : TFMT_DEVICE_NONE);                                        \
		held = ip_captures_hold_of((struct ip_capture_home){ (uintptr_t)context, c.device });        \
		context_forget(context);                                                                     \
		real = REAL(name);                                                                           \
		result = real ? real(context) : NO_DRIVER;                                                   \
		ip_captures_settle(held, !result);                                                           \
		if (!result && c.known)                                                                      \
			ended(FN_##name, c.device, (uintptr_t)context, c.number);                            \
		else if (c.known)                                                                            \
			context_remember(context, c.device, c.number);                                       \
		return result;                                                                               \
	}

CONTEXT_DESTROY(cuCtxDestroy_v2)
CONTEXT_DESTROY(cuCtxDestroy)

/* ---- primary contexts ------------------------------------------------------------------------------ */

static struct ip_thread *primary_seen(uint16_t function, unsigned device, uintptr_t handle)
{
	_Atomic uintptr_t *slot = device < TFMT_NR_DEVICES ? &ip_recorder->contexts.primary[device] : NULL;
	uintptr_t none = 0;

	if (slot && !atomic_load_explicit(slot, memory_order_relaxed) &&
	    atomic_compare_exchange_strong(slot, &none, handle ? handle : IP_HANDLE_TAKEN))
		return context_event(TFMT_OBJECT_NEW, TFMT_OBJECT_CONTEXT, function, device, handle, 0,
				     PRIMARY);
	return NULL;
}

/* No sample: what has just been allocated is not recorded yet. */
void ip_context_used(uint16_t function, unsigned device)
{
	primary_seen(function, device, 0);
}

static void primary_gone(uint16_t function, unsigned device)
{
	uintptr_t handle =
		device < TFMT_NR_DEVICES ? atomic_exchange(&ip_recorder->contexts.primary[device], 0) : 0;

	if (handle)
		ended(function, device, handle == IP_HANDLE_TAKEN ? 0 : handle, PRIMARY);
}

void ip_context_reset(uint16_t function, unsigned device)
{
	ip_captures_settle(ip_captures_hold_of((struct ip_capture_home){ 0, device }), true);
	primary_gone(function, device);
}

static bool is_primary_active(unsigned device)
{
	int saved = errno, active = 1;
	__typeof__(&cuDevicePrimaryCtxGetState) get = ASK(cuDevicePrimaryCtxGetState);
	unsigned flags;

	if (get && get((CUdevice)device, &flags, &active))
		active = 1;
	errno = saved;
	return active;
}

/* The last release of a primary context resets it. */
static void primary_released(uint16_t function, unsigned device)
{
	if (!is_primary_active(device))
		primary_gone(function, device);
}

WRAP_ON(device, cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device),
	sample(primary_seen(FN_cuDevicePrimaryCtxRetain, (unsigned)device, (uintptr_t)*out),
	       (unsigned)device))

/* As WRAP, of what ends contexts: the driver is asked once more before. */
#define PRIMARY_END(name, after, is_gone)                                                                    \
	IP_EXPORT CUresult CUDAAPI name(CUdevice device)                                                     \
	{                                                                                                    \
		__typeof__(&name) real;                                                                      \
		CUresult result;                                                                             \
		uint64_t held;                                                                               \
                                                                                                             \
		ip_reached();                                                                                \
		sample_before((unsigned)device);                                                             \
		held = ip_captures_hold_of((struct ip_capture_home){ 0, (unsigned)device });                 \
		real = REAL(name);                                                                           \
		result = real ? real(device) : NO_DRIVER;                                                    \
		if (held)                                                                                    \
			ip_captures_settle(held, !result && (is_gone));                                      \
		if (!result)                                                                                 \
			after(FN_##name, (unsigned)device);                                                  \
		return result;                                                                               \
	}

PRIMARY_END(cuDevicePrimaryCtxRelease_v2, primary_released, !is_primary_active((unsigned)device))
PRIMARY_END(cuDevicePrimaryCtxRelease, primary_released, !is_primary_active((unsigned)device))
PRIMARY_END(cuDevicePrimaryCtxReset_v2, primary_gone, true)
PRIMARY_END(cuDevicePrimaryCtxReset, primary_gone, true)

/* ---- green contexts: parts of a device, in its primary context ------------------------------------- */

static void green_created(CUgreenCtx context, CUdevice device)
{
	context_remember(context, (unsigned)device, PRIMARY);
	primary_seen(FN_cuGreenCtxCreate, (unsigned)device, 0);
	sample(context_event(TFMT_OBJECT_NEW, TFMT_OBJECT_GREEN_CONTEXT, FN_cuGreenCtxCreate,
			     (unsigned)device, (uintptr_t)context, 0, PRIMARY),
	       (unsigned)device);
}

WRAP_ON(device, cuGreenCtxCreate,
	(CUgreenCtx * out, CUdevResourceDesc resources, CUdevice device, unsigned flags),
	(out, resources, device, flags), green_created(*out, device))

IP_EXPORT CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx context)
{
	struct created c = (ip_reached(), context_of(context));
	__typeof__(&cuGreenCtxDestroy) real;
	CUresult result;

	context_forget(context);
	real = REAL(cuGreenCtxDestroy);
	result = real ? real(context) : NO_DRIVER;
	if (result && c.known)
		context_remember(context, c.device, PRIMARY);
	if (result)
		return result;
	context_event(TFMT_OBJECT_GONE, TFMT_OBJECT_GREEN_CONTEXT, FN_cuGreenCtxDestroy,
		      c.known ? c.device : IP_CURRENT_DEVICE, (uintptr_t)context, 0, PRIMARY);
	if (c.known)
		primary_released(FN_cuGreenCtxDestroy, c.device);
	return result;
}

/* ---- settings, and the whole process's memory ------------------------------------------------------ */

static void context_set(uint16_t function, uint64_t which, uint64_t value)
{
	int saved = errno;
	unsigned device = ip_driver_device();

	sample(context_event(TFMT_OBJECT_SET, TFMT_OBJECT_CONTEXT, function, device, 0, value, which),
	       device);
	errno = saved;
}

WRAP(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value),
     context_set(FN_cuCtxSetLimit, limit, value))

#define CHECKPOINTED 0x100 /* no limit has this number */

static void checkpointed(uint16_t function, int pid, bool on_host)
{
	if (pid == (int)getpid())
		context_set(function, CHECKPOINTED, on_host);
}

WRAP(cuCheckpointProcessCheckpoint, (int pid, CUcheckpointCheckpointArgs *args), (pid, args),
     checkpointed(FN_cuCheckpointProcessCheckpoint, pid, true))
WRAP(cuCheckpointProcessRestore, (int pid, CUcheckpointRestoreArgs *args), (pid, args),
     checkpointed(FN_cuCheckpointProcessRestore, pid, false))
