/* SPDX-License-Identifier: MIT */
/*
 * Contexts and modules as CUPTI tells of them. Modules load at the first use of a kernel, in no call that a hook
 * could see: those are recorded here, under CUPTI's number of the module. Contexts are recorded by their hooks and
 * with the first allocation in them; what CUPTI adds are those in which nothing was ever allocated.
 *
 * The callbacks may not ask CUDA which device a context is on. That is learnt when a memory call returns, and asked
 * at the end; what comes before that, or before anything is recorded, waits for it.
 */
#include <string.h>

#include "cupti_state.h"
#include "hooks_driver.h"

/* Is a hook under way that records what it makes itself? */
static bool is_hooked(const char *const *prefix)
{
	const char *name = ip_tls.calling ? ip_hooks[ip_tls.calling].name : NULL;

	for (; name && *prefix; prefix++)
		if (!strncmp(name, *prefix, strlen(*prefix)))
			return true;
	return false;
}

static bool context_is_hooked(void)
{
	static const char *const prefix[] = { "cuCtxCreate", "cuDevicePrimaryCtx", "cuGreenCtxCreate", NULL };

	return is_hooked(prefix);
}

static bool module_is_hooked(void)
{
	static const char *const prefix[] = { "cuModuleLoad", "cuLibraryLoad", NULL };

	return is_hooked(prefix);
}

void cupti_objects_start(struct ip_cupti *c)
{
	static const CUpti_CallbackIdResource ids[] = {
		CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
	};

	for (unsigned i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		c->api.cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_RESOURCE, ids[i]);
}

/* ---- contexts and their devices -------------------------------------------------------------- */

static struct cupti_context *find(struct ip_cupti *c, CUcontext context)
{
	for (unsigned i = 0; i < CUPTI_NR_CONTEXTS; i++)
		if (atomic_load_explicit(&c->context[i].context, memory_order_acquire) == context)
			return &c->context[i];
	return NULL;
}

/* Lock held. NULL when there are too many. */
static struct cupti_context *find_or_add(struct ip_cupti *c, CUcontext context)
{
	struct cupti_context *row = find(c, context);

	if (!row && (row = find(c, NULL)) != NULL) {
		atomic_store_explicit(&row->device, TFMT_DEVICE_NONE, memory_order_relaxed);
		row->is_hooked = false;
		atomic_store_explicit(&row->context, context, memory_order_release);
	}
	return row;
}

unsigned cupti_context_device(struct ip_cupti *c, CUcontext context)
{
	struct cupti_context *row = context ? find(c, context) : NULL;

	return row ? atomic_load_explicit(&row->device, memory_order_relaxed) : TFMT_DEVICE_NONE;
}

void cupti_context_on(struct ip_cupti *c, CUcontext context, unsigned device)
{
	struct cupti_context *row;

	if (!context || device >= TFMT_NR_DEVICES)
		return;
	ip_lock(&c->object_lock);
	row = find_or_add(c, context);
	if (row)
		atomic_store_explicit(&row->device, (uint8_t)device, memory_order_relaxed);
	ip_unlock(&c->object_lock);
}

/* ---- recording ------------------------------------------------------------------------------- */

static void record(struct tfmt_record *ev, bool is_elsewhere)
{
	struct ip_thread *t = ip_event_thread();

	if (!t)
		return;
	t->busy = true;
	t->is_elsewhere = is_elsewhere;
	ip_record(t, ev);
	t->is_elsewhere = false;
	t->busy = false;
}

/* Lock held. Take the first that can be recorded now; of ANY device means also of none. */
static bool take_pending(struct ip_cupti *c, bool any, struct tfmt_record *ev)
{
	for (unsigned i = 0; i < c->nr_pending; i++) {
		struct cupti_object *o = &c->pending[i];

		*ev = o->record;
		if (ev->device == TFMT_DEVICE_NONE)
			ev->device = (uint8_t)cupti_context_device(c, o->context);
		if (ev->device == TFMT_DEVICE_NONE && !any)
			continue;
		memmove(o, o + 1, (--c->nr_pending - i) * sizeof(*o));
		atomic_store_explicit(&c->has_pending, c->nr_pending > 0, memory_order_relaxed);
		return true;
	}
	return false;
}

void cupti_objects_record(struct ip_cupti *c, bool any)
{
	struct tfmt_record ev;
	bool found = true;

	while (found && ip_state() == IP_RECORDING &&
	       atomic_load_explicit(&c->has_pending, memory_order_relaxed)) {
		ip_lock(&c->object_lock);
		found = take_pending(c, any, &ev);
		ip_unlock(&c->object_lock);
		if (found)
			record(&ev, true);
	}
}

void cupti_objects_end(struct ip_cupti *c)
{
	for (unsigned i = 0; i < CUPTI_NR_CONTEXTS && ip_state() == IP_RECORDING; i++) {
		struct cupti_context *row = &c->context[i];
		CUcontext context = atomic_load_explicit(&row->context, memory_order_acquire);
		uint32_t device;

		if (!context || row->is_hooked || row->device != TFMT_DEVICE_NONE || !c->api.cuptiGetDeviceId ||
		    c->api.cuptiGetDeviceId(context, &device))
			continue;
		cupti_context_on(c, context, device);
		ip_context_used(FN_NONE, device);
	}
	cupti_objects_record(c, true);
}

static void keep(struct ip_cupti *c, CUcontext context, const struct tfmt_record *ev)
{
	ip_lock(&c->object_lock);
	if (c->nr_pending < CUPTI_NR_PENDING) {
		c->pending[c->nr_pending++] = (struct cupti_object){ *ev, context };
		atomic_store_explicit(&c->has_pending, true, memory_order_relaxed);
	} else {
		atomic_fetch_add_explicit(&c->objects_lost, 1, memory_order_relaxed);
	}
	ip_unlock(&c->object_lock);
}

static void put_module(struct ip_cupti *c, uint8_t kind, CUcontext context, uint32_t id, uint64_t bytes)
{
	struct tfmt_record ev = {
		.kind = kind,
		.flags = TFMT_OBJECT_MODULE,
		.address = id,
		.size = bytes,
		.device = (uint8_t)cupti_context_device(c, context),
	};

	/* What came before goes before. */
	cupti_objects_record(c, false);
	if (ev.device == TFMT_DEVICE_NONE || ip_state() != IP_RECORDING)
		keep(c, context, &ev);
	else
		record(&ev, false);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void context_created(struct ip_cupti *c, CUcontext context)
{
	struct cupti_context *row;

	atomic_fetch_add_explicit(&c->contexts, 1, memory_order_relaxed);
	ip_lock(&c->object_lock);
	row = find_or_add(c, context);
	if (row)
		row->is_hooked = context_is_hooked();
	ip_unlock(&c->object_lock);
}

/* Its address may be another context's next time, on another device. */
static void context_ends(struct ip_cupti *c, CUcontext context)
{
	struct cupti_context *row = context ? find(c, context) : NULL;

	if (row)
		atomic_store_explicit(&row->context, NULL, memory_order_release);
}

static void module_loaded(struct ip_cupti *c, CUcontext context, const CUpti_ModuleResourceData *module)
{
	uint32_t id = module->moduleId;

	atomic_fetch_add_explicit(&c->modules, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->module_bytes, module->cubinSize, memory_order_relaxed);
	if (module_is_hooked()) {
		ip_tls.module_bytes += module->cubinSize;
		return;
	}
	if (id < CUPTI_NR_MODULES)
		atomic_fetch_or_explicit(&c->known_module[id / 64], 1ull << id % 64, memory_order_relaxed);
	put_module(c, TFMT_OBJECT_NEW, context, id, module->cubinSize);
}

static void module_ends(struct ip_cupti *c, CUcontext context, const CUpti_ModuleResourceData *module)
{
	uint32_t id = module->moduleId;
	uint64_t bit = 1ull << id % 64;

	if (id < CUPTI_NR_MODULES &&
	    atomic_fetch_and_explicit(&c->known_module[id / 64], ~bit, memory_order_relaxed) & bit)
		put_module(c, TFMT_OBJECT_GONE, context, id, 0);
}

void cupti_object(struct ip_cupti *c, CUpti_CallbackIdResource what, const CUpti_ResourceData *data)
{
	switch (what) {
	case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
		context_created(c, data->context);
		break;
	case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
		context_ends(c, data->context);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_LOADED:
		module_loaded(c, data->context, data->resourceDescriptor);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		module_ends(c, data->context, data->resourceDescriptor);
		break;
	default:
		break;
	}
}
