/* SPDX-License-Identifier: MIT */
/*
 * The hooks and CUPTI compared, call by call: a memory call that CUPTI tells of while this thread is in no
 * hook has gone past them. It is counted and recorded, but changes no ledger: what freed it may have been
 * seen.
 *
 * Only the driver's calls are compared. The runtime's reach the driver, so nothing would be added but cost.
 */
#include <string.h>

#include "cupti_state.h"
#include "opencall.h"
#include "strings.h"

/* After cuda.h; their driver types are those of the newest header. */
#include <generated_cuda_meta.h>

enum action { ALLOC = TFMT_UNHOOKED_ALLOC, FREE = TFMT_UNHOOKED_FREE, OTHER = TFMT_UNHOOKED_OTHER };

#define DEVICE TFMT_SPACE_DEVICE
#define MANAGED TFMT_SPACE_MANAGED
#define PINNED TFMT_SPACE_PINNED
#define REGISTERED TFMT_SPACE_REGISTERED
#define POOL TFMT_SPACE_POOL
#define HANDLE TFMT_SPACE_HANDLE
#define HANDLE_HOST TFMT_SPACE_HANDLE_HOST
#define HANDLE_IMPORTED TFMT_SPACE_HANDLE_IMPORTED
#define RESERVED TFMT_SPACE_RESERVED
#define ARRAY TFMT_SPACE_ARRAY
#define IPC TFMT_SPACE_IPC
#define GRAPH TFMT_SPACE_GRAPH
#define MULTICAST TFMT_SPACE_MULTICAST

/* How each call is recorded: a function that reads its parameters. */
#define CALL(function, base, of, action, space, where, bytes)                                 \
	static void read_##function(const void *params, struct tfmt_record *ev)               \
	{                                                                                     \
		const of##_params *p = params;                                                \
                                                                                              \
		(void)p;                                                                      \
		ev->flags = (uint16_t)(space);                                                \
		ev->address = (uint64_t)(where);                                              \
		ev->size = (uint64_t)(bytes);                                                 \
	}
#include "cupti_calls.def"
#undef CALL

static const struct call {
	const char *name, *base;
	CUpti_CallbackId id;
	enum action action;
	void (*read)(const void *params, struct tfmt_record *ev);
} calls[] = {
#define CALL(function, base, of, action, space, where, bytes) \
	{ #function, base, CUPTI_DRIVER_TRACE_CBID_##function, action, read_##function },
#include "cupti_calls.def"
#undef CALL
};
#define NR_CALLS (sizeof(calls) / sizeof(*calls))
#define NO_MEMORY_CALL 255 /* a row that only says that the call is over */
_Static_assert(NR_CALLS < NO_MEMORY_CALL, "a row's number is a byte");

/* Calls during which hooks record contexts and modules (cupti_objects.c): their end matters. */
static const CUpti_CallbackId object_calls[] = {
#define ID(function) CUPTI_DRIVER_TRACE_CBID_##function
	ID(cuCtxCreate), ID(cuCtxCreate_v2), ID(cuCtxCreate_v3), ID(cuCtxCreate_v4), ID(cuCtxDestroy),
	ID(cuCtxDestroy_v2), ID(cuDevicePrimaryCtxRetain), ID(cuDevicePrimaryCtxRelease),
	ID(cuDevicePrimaryCtxRelease_v2), ID(cuDevicePrimaryCtxReset), ID(cuDevicePrimaryCtxReset_v2),
	ID(cuGreenCtxCreate), ID(cuModuleLoad), ID(cuModuleLoadData), ID(cuModuleLoadDataEx),
	ID(cuModuleLoadFatBinary), ID(cuLibraryLoadData), ID(cuLibraryLoadFromFile),
#undef ID
};

/* An older CUPTI does not know them all, and cannot tell of what it does not know. */
static bool enable(struct ip_cupti *c, CUpti_CallbackId id, unsigned row)
{
	if (c->api.cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id))
		return false;
	c->row[id] = (uint8_t)row;
	return true;
}

void cupti_crosscheck_start(struct ip_cupti *c)
{
	for (unsigned i = 0; i < sizeof(object_calls) / sizeof(*object_calls); i++)
		enable(c, object_calls[i], NO_MEMORY_CALL);
	for (unsigned i = 0; i < NR_CALLS; i++) {
		if (!enable(c, calls[i].id, i + 1))
			continue;
		for (unsigned fn = 1; fn < FN_NR; fn++)
			c->is_expected[fn] |= !strcmp(ip_hooks[fn].name, calls[i].name);
	}
}

void ip_cupti_calling(enum ip_fn fn)
{
	struct ip_cupti *c = ip_recorder->cupti;

	if (ip_tls.calling && c->is_expected[ip_tls.calling])
		atomic_fetch_add_explicit(&c->untold, 1, memory_order_relaxed);
	ip_tls.calling = (uint16_t)fn;
	ip_tls.module_bytes = 0;
}

uint64_t ip_cupti_module_bytes(void)
{
	return ip_tls.module_bytes;
}

/* A runtime whose driver calls cannot be hooked: its own wrappers record, after this call. */
static bool runtime_records(void)
{
	return open_origin(NULL) && !atomic_load_explicit(&ip_recorder->driver_hooked, memory_order_relaxed);
}

static uint16_t function_of(const char *name)
{
	for (unsigned fn = 1; fn < FN_NR; fn++)
		if (!strcmp(ip_hooks[fn].name, name))
			return (uint16_t)fn;
	return ip_function_named(name);
}

static IP_COLD void unhooked(struct ip_cupti *c, const struct call *call, const void *params, unsigned device)
{
	struct tfmt_record ev = { .kind = TFMT_UNHOOKED, .device = (uint8_t)device, .aux = call->action };
	struct ip_thread *t;

	atomic_fetch_add_explicit(&c->unhooked, 1, memory_order_relaxed);
	if (call->action == ALLOC)
		ip_begin();
	t = ip_event_thread();
	if (!t)
		return;
	t->busy = true;
	call->read(params, &ev);
	ev.function = function_of(call->name);
	ip_record(t, &ev);
	t->busy = false;
}

void cupti_crosscheck(struct ip_cupti *c, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	unsigned row = id < CUPTI_NR_CALLS ? c->row[id] : 0, device;
	uint16_t calling = ip_tls.calling;
	const struct call *call;

	if (!row || data->callbackSite != CUPTI_API_EXIT)
		return;
	ip_tls.calling = 0;
	if (row == NO_MEMORY_CALL)
		return;
	call = &calls[row - 1];
	atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed);
	if (*(const CUresult *)data->functionReturnValue)
		return;
	device = cupti_context_device(c, data->context);
	if (device == TFMT_DEVICE_NONE) {
		device = ip_driver_device();
		cupti_context_on(c, data->context, device);
	}
	cupti_objects_record(c, false);
	if (!(calling && !strcmp(ip_hooks[calling].base, call->base)) && !runtime_records())
		unhooked(c, call, data->functionParams, device);
}
