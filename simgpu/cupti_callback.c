/* SPDX-License-Identifier: MIT */
/*
 * CUPTI's callback API: one subscriber, told of the runtime and driver calls that it enabled, and of contexts,
 * streams, modules and synchronisation. Calls that a callback makes are not told of.
 */
#include "simgpu/callback.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "simgpu/cupti_names.h"

#define NR_CBIDS 2048		/* per domain; today's headers end below 900 */
#define NR_NOTICES 16		/* objects that one call makes: more are not told of */

/* Opaque to the client: there is never another one. */
static struct CUpti_Subscriber_st {
	CUpti_CallbackFunc callback;
	void *userdata;
	char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN];
	uint8_t enabled[CUPTI_CB_DOMAIN_SIZE][NR_CBIDS];
} the_subscriber;

static _Atomic(CUpti_SubscriberHandle) subscriber;
bool sim_cupti_on;

/* What was made by the call that is under way. */
struct notice {
	CUpti_CallbackIdResource what;
	CUpti_ResourceData data;
	CUpti_ModuleResourceData module;
};

static __thread struct {
	struct sim_call *call;
	bool in_callback, in_clock;
	unsigned nr_notices;
	struct notice notices[NR_NOTICES];
} thread;

void sim_cupti_update(void)
{
	__atomic_store_n(&sim_cupti_on, atomic_load(&subscriber) || sim_records_wanted(), __ATOMIC_RELEASE);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
	CUpti_SubscriberHandle s = atomic_load(&subscriber);

	if (!s || thread.in_callback || cbid >= NR_CBIDS || !s->enabled[domain][cbid])
		return;
	thread.in_callback = true;
	s->callback(s->userdata, domain, cbid, data);
	thread.in_callback = false;
}

static void tell_call(struct sim_call *call, CUpti_ApiCallbackSite site)
{
	struct sim_context *ctx = sim_context_current();
	CUpti_CallbackData data = {
		.callbackSite = site,
		.functionName = call->name,
		.functionParams = call->params,
		.functionReturnValue = site == CUPTI_API_EXIT ? call->result : NULL,
		.symbolName = call->symbol,
		.context = (CUcontext)ctx,
		.contextUid = ctx ? (uint32_t)ctx->id : 0,
		.correlationData = &call->data,
		.correlationId = call->correlation,
	};

	tell(call->domain, call->cbid, &data);
}

void sim_call_enter(struct sim_call *call)
{
	static uint32_t last_correlation;

	call->outer = thread.call;
	call->correlation = call->outer ? call->outer->correlation
					: __atomic_add_fetch(&last_correlation, 1, __ATOMIC_RELAXED);
	/* Here, where nothing of ours is locked: the clock may be the client's, and make calls. */
	if (sim_records_wanted() && !thread.in_clock) {
		thread.in_clock = true;
		cuptiGetTimestamp(&call->timestamp);
		thread.in_clock = false;
	}
	thread.call = call;
	tell_call(call, CUPTI_API_ENTER);
}

static void tell_notices(void)
{
	for (unsigned i = 0; i < thread.nr_notices; i++) {
		struct notice *n = &thread.notices[i];

		if (n->module.moduleId)
			n->data.resourceDescriptor = &n->module;
		tell(CUPTI_CB_DOMAIN_RESOURCE, n->what, &n->data);
	}
	thread.nr_notices = 0;
}

void sim_call_exit(struct sim_call *call)
{
	/* A callback may make calls, and they objects: those are not told of, and what waits is not theirs. */
	if (!thread.in_callback)
		tell_notices();
	tell_call(call, CUPTI_API_EXIT);
	thread.call = call->outer;
	if (!thread.call)
		sim_records_deliver_some();
}

uint32_t sim_call_correlation(void)
{
	return thread.call ? thread.call->correlation : 0;
}

uint64_t sim_call_timestamp(void)
{
	return thread.call ? thread.call->timestamp : 0;
}

static void note(const struct notice *notice)
{
	if (sim_cupti_on && thread.call && !thread.in_callback && thread.nr_notices < NR_NOTICES)
		thread.notices[thread.nr_notices++] = *notice;
}

void sim_tell_created(CUpti_CallbackIdResource what, void *context, void *stream)
{
	note(&(struct notice){ .what = what,
			       .data = { .context = context, .resourceHandle.stream = stream } });
}

void sim_tell_module_loaded(uint32_t id, const void *image, size_t bytes)
{
	note(&(struct notice){ .what = CUPTI_CBID_RESOURCE_MODULE_LOADED,
			       .data.context = (CUcontext)sim_context_current(),
			       .module = { .moduleId = id, .cubinSize = bytes, .pCubin = image } });
}

void sim_tell_destroying(CUpti_CallbackIdResource what, void *context, void *stream)
{
	CUpti_ResourceData data = { .context = context, .resourceHandle.stream = stream };

	if (sim_cupti_on)
		tell(CUPTI_CB_DOMAIN_RESOURCE, what, &data);
}

void sim_tell_module_unloading(uint32_t id)
{
	CUpti_ModuleResourceData module = { .moduleId = id };
	CUpti_ResourceData data = { .context = (CUcontext)sim_context_current(),
				    .resourceDescriptor = &module };

	if (sim_cupti_on)
		tell(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, &data);
}

void sim_tell_synchronised(CUpti_CallbackIdSync what, void *stream)
{
	CUpti_SynchronizeData data = { .context = (CUcontext)sim_context_current(), .stream = stream };

	if (sim_cupti_on)
		tell(CUPTI_CB_DOMAIN_SYNCHRONIZE, what, &data);
}

/* ---- the subscriber -------------------------------------------------------------------------- */

static CUptiResult subscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *userdata,
			     const char *name)
{
	CUpti_SubscriberHandle none = NULL;

	if (!handle)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!atomic_compare_exchange_strong(&subscriber, &none, &the_subscriber))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	the_subscriber.callback = callback;
	the_subscriber.userdata = userdata;
	snprintf(the_subscriber.name, sizeof(the_subscriber.name), "CUPTI for %s", name ? name : "");
	*handle = &the_subscriber;
	sim_cupti_update();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *userdata)
{
	return subscribe(handle, callback, userdata, NULL);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *userdata,
			      CUpti_SubscriberParams *params)
{
	CUptiResult ret;

	if (params && !params->structSize)
		return CUPTI_ERROR_INVALID_PARAMETER;
	ret = subscribe(handle, callback, userdata, params ? params->subscriberName : NULL);
	if (ret == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && params && params->oldSubscriberName)
		snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s", the_subscriber.name);
	return ret;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	if (!handle || handle != atomic_load(&subscriber))
		return CUPTI_ERROR_INVALID_PARAMETER;
	memset(handle->enabled, 0, sizeof(handle->enabled));
	atomic_store(&subscriber, NULL);
	sim_cupti_update();
	return CUPTI_SUCCESS;
}

/* The end of the callback ids of DOMAIN, 0 when it is none. */
static uint32_t domain_end(CUpti_CallbackDomain domain)
{
	switch (domain) {
	case CUPTI_CB_DOMAIN_DRIVER_API:
		return (uint32_t)sim_nr_driver_names;
	case CUPTI_CB_DOMAIN_RUNTIME_API:
		return (uint32_t)sim_nr_runtime_names;
	case CUPTI_CB_DOMAIN_RESOURCE:
		return CUPTI_CBID_RESOURCE_SIZE;
	case CUPTI_CB_DOMAIN_SYNCHRONIZE:
		return CUPTI_CBID_SYNCHRONIZE_SIZE;
	case CUPTI_CB_DOMAIN_STATE:
		return CUPTI_CBID_STATE_SIZE;
	case CUPTI_CB_DOMAIN_NVTX:
		return NR_CBIDS;
	default:
		return 0;
	}
}

static bool is_known(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	return handle && handle == atomic_load(&subscriber) && cbid && cbid < domain_end(domain);
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
				CUpti_CallbackId cbid)
{
	if (!is_known(handle, domain, cbid))
		return CUPTI_ERROR_INVALID_PARAMETER;
	handle->enabled[domain][cbid] = enable != 0;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain)
{
	if (!is_known(handle, domain, 1))
		return CUPTI_ERROR_INVALID_PARAMETER;
	memset(handle->enabled[domain], enable != 0, domain_end(domain));
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle handle)
{
	for (CUpti_CallbackDomain d = CUPTI_CB_DOMAIN_DRIVER_API; d < CUPTI_CB_DOMAIN_SIZE; d++)
		if (cuptiEnableDomain(enable, handle, d))
			return CUPTI_ERROR_INVALID_PARAMETER;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackState(uint32_t *enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
				  CUpti_CallbackId cbid)
{
	if (!enable || !is_known(handle, domain, cbid))
		return CUPTI_ERROR_INVALID_PARAMETER;
	*enable = handle->enabled[domain][cbid];
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name)
{
	const char *const *names = domain == CUPTI_CB_DOMAIN_DRIVER_API ? sim_driver_names : sim_runtime_names;

	if (name)
		*name = NULL;
	if (!name || (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) ||
	    cbid >= domain_end(domain) || !names[cbid])
		return CUPTI_ERROR_INVALID_PARAMETER;
	*name = names[cbid];
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSupportedDomains(size_t *count, CUpti_DomainTable *table)
{
	static CUpti_CallbackDomain domains[] = { CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
						  CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE };

	if (!count || !table)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*count = sizeof(domains) / sizeof(*domains);
	*table = domains;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiFinalize(void)
{
	CUpti_SubscriberHandle s = atomic_load(&subscriber);

	if (s)
		cuptiUnsubscribe(s);
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2);
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
	return CUPTI_SUCCESS;
}
